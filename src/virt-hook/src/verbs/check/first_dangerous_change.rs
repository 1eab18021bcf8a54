//! Whether libvirt may read a hook's domain on this machine.
//!
//! When libvirt's QEMU driver defines a domain, it runs its emulator, and it may open and delete files that the domain names,
//! with the rights of whoever runs `check`. In a launcher's pod the operator's policy is the guard; here there may be none,
//! and the module may be a stranger's. So whatever a policy grants, libvirt reads only a domain whose changes need no grant
//! of the dangerous set.

use domain_xml::Document;
use domain_xml::host::diff;
use hook_host::ConditionedPath;
use hook_host::policy::permission::{Checker, Permission};

/// All that a policy without `dangerous` can grant.
const EVERYTHING_HARMLESS: &str = "/domain/**";

/// The path of the first change from `before` to `after` that libvirt must not read; `None` if it may read `after`.
pub(super) fn first_dangerous_change(before: &str, after: &str) -> Option<String> {
    let parsed = (Document::parse(before), Document::parse(after));
    let (Ok(before), Ok(after)) = parsed else {
        return Some("/domain".to_owned());
    };
    let Ok(everything) = ConditionedPath::parse(EVERYTHING_HARMLESS) else {
        return Some("/domain".to_owned());
    };
    let patterns = [everything];
    let mut checker = Checker::new(&patterns, &before, &after);
    diff(&before, &after)
        .iter()
        .find_map(|change| match checker.permits(change) {
            Permission::Granted { .. } => None,
            Permission::Refused(refusal) => Some(refusal.path),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libvirt_reads_only_changes_that_need_no_grant_of_the_dangerous_set() {
        let domain = |content: &str| format!("<domain type='kvm'><name>a</name>{content}</domain>");
        let before = domain("<devices><emulator>/usr/bin/qemu</emulator></devices>");
        for harmless in [
            "<title>x</title><devices><emulator>/usr/bin/qemu</emulator></devices>",
            "<devices><emulator>/usr/bin/qemu</emulator><rng model='virtio'/></devices>",
        ] {
            let found = first_dangerous_change(&before, &domain(harmless));
            assert_eq!(found, None, "{harmless}");
        }
        for (dangerous, path) in [
            (
                "<devices><emulator>/home/x</emulator></devices>",
                "/domain/devices/emulator",
            ),
            ("<devices/>", "/domain/devices/emulator"),
            (
                "<os><nvram>/home/x</nvram></os><devices><emulator>/usr/bin/qemu</emulator></devices>",
                "/domain/os/nvram",
            ),
        ] {
            let found = first_dangerous_change(&before, &domain(dangerous));
            assert_eq!(found.as_deref(), Some(path), "{dangerous}");
        }
        assert!(first_dangerous_change(&before, "no XML").is_some());
    }
}
