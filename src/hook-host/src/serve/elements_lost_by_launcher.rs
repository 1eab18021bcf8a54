//! Finds elements outside libvirt's own namespace, such as `qemu:commandline`, that a launcher loses between two calls.
//!
//! KubeVirt v1.9.0 defines a domain several times, and drops its own `qemu:commandline` after the
//! first time if the VM has any hook.

use std::collections::BTreeSet;

use domain_xml::Document;

/// The names of the foreign elements in the domain of the last call.
#[derive(Debug, Default)]
pub(super) struct ForeignElements(BTreeSet<String>);

impl ForeignElements {
    /// Compares the domain with that of the last call, and returns the names of the foreign elements that it lacks.
    pub(super) fn lost(&mut self, domain: &Document) -> Vec<String> {
        let children = domain.root().children();
        let names = children.map(|child| child.canonical_name().to_owned());
        let current: BTreeSet<String> = names.filter(|name| name.contains(':')).collect();
        let lost = self.0.difference(&current).cloned().collect();
        self.0 = current;
        lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_command_line_is_reported_once() {
        let domain = |more: &str| {
            let xml = format!(
                "<domain xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'><title/>{more}</domain>"
            );
            Document::parse(&xml).unwrap()
        };
        let mut elements = ForeignElements::default();
        let none: [&str; 0] = [];
        assert_eq!(elements.lost(&domain("<qemu:commandline/>")), none);
        assert_eq!(elements.lost(&domain("<os/>")), ["qemu:commandline"]);
        assert_eq!(elements.lost(&domain("")), none);
        assert_eq!(elements.lost(&domain("<qemu:commandline/>")), none);
    }
}
