//! The changes that a hook may make to a domain that arrives by a migration. The guest must find the same machine as
//! before.
//!
//! libvirt compares the domains of the source and the target, and refuses most changes that the guest would notice;
//! QEMU refuses the state of another machine. Neither of their messages names a hook, so each hook's changes are
//! checked before. The changes that `accepted_changes.txt` does not list are refused.

use std::sync::OnceLock;

use domain_xml::Document;
use domain_xml::host::Change;

use super::permission::{Checker, Permission};
use super::{Grant, Layer};
use crate::ConditionedPath;

const ACCEPTED_CHANGES: &str = include_str!("migration_abi/accepted_changes.txt");
const REMEDY: &str = "a migration's target must keep the machine that the guest runs on; \
     let the hook leave this as it is when the reason is migration-target";

/// The changes that libvirt and QEMU accept, as a grant. The hook's own grant is checked apart.
pub(crate) fn changes_accepted_on_arrival() -> &'static Grant {
    static GRANT: OnceLock<Grant> = OnceLock::new();
    GRANT.get_or_init(|| {
        // No kind of the dangerous set is accepted as a whole: each kind has nodes that the guest sees.
        let paths = accepted_paths().collect();
        Grant::new(vec![Layer::new(
            paths,
            "the table of what a migration may change",
        )])
    })
}

/// The changes that libvirt or QEMU refuse in a domain that arrives by a migration.
#[must_use]
pub fn refused<'a>(changes: &'a [Change], before: &Document, after: &Document) -> Vec<&'a Change> {
    let paths: Vec<ConditionedPath> = accepted_paths().collect();
    let mut checker = Checker::new(&paths, before, after);
    let is_refused =
        |change: &&Change| !matches!(checker.permits(change), Permission::Granted { .. });
    changes.iter().filter(is_refused).collect()
}

/// The remedy for a change that is not [`accepted`].
pub(crate) fn remedy() -> String {
    REMEDY.to_owned()
}

fn accepted_paths() -> impl Iterator<Item = ConditionedPath> {
    let lines = ACCEPTED_CHANGES
        .lines()
        .filter(|line| !line.starts_with('#'));
    // A test checks that every line is a pattern.
    lines.filter_map(|line| ConditionedPath::parse(line).ok())
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use domain_xml::PathPattern;
    use domain_xml::host::{Budget, diff};

    use super::*;
    use crate::policy::permission::libvirt_schema_for_tests;
    use crate::policy::{NotGranted, dangerous_values};

    const DOMAIN: &str = "<domain type='kvm' xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'>\
        <name>ns_vm</name><title>t</title><memory>1</memory><vcpu>1</vcpu><os><type machine='q35'>hvm</type>\
        <loader>/l</loader><smbios mode='sysinfo'/></os><sysinfo type='smbios'><system><entry name='serial'>1</entry></system></sysinfo>\
        <devices><disk type='file' device='disk'><driver name='qemu' type='raw' cache='none' queues='1'/>\
        <source file='/a'/><target dev='vda' bus='virtio'/><serial>s</serial></disk>\
        <interface type='ethernet'><mac address='02:00:00:00:00:01'/><target dev='tap0'/><model type='virtio'/>\
        <mtu size='1500'/></interface></devices><qemu:commandline><qemu:arg value='-S'/><qemu:env name='E' value='a'/>\
        </qemu:commandline></domain>";

    /// The path of the refused change, if any.
    fn refused_path(from: &str, to: &str) -> Option<String> {
        let after = DOMAIN.replace(from, to);
        assert_ne!(after, DOMAIN);
        let [before, after] = [DOMAIN, &after].map(|xml| Document::parse(xml).unwrap());
        let budget = Rc::new(Budget::unlimited());
        let checked =
            changes_accepted_on_arrival().check(&diff(&before, &after), &before, &after, &budget);
        match checked {
            Ok(()) => None,
            Err(NotGranted::Refused(refusal)) => Some(refusal.path),
            Err(NotGranted::CheckBudgetExhausted) => Some("unchecked".into()),
        }
    }

    #[test]
    fn every_line_is_a_pattern() {
        let lines = ACCEPTED_CHANGES
            .lines()
            .filter(|line| !line.starts_with('#'));
        assert_eq!(accepted_paths().count(), lines.count());
    }

    /// No wildcard matches a dangerous value, so that `**` alone would refuse some values of what it accepts.
    #[test]
    fn nodes_with_dangerous_values_below_a_whole_element_have_lines_of_their_own() {
        let lines: Vec<&str> = ACCEPTED_CHANGES.lines().collect();
        let (mut found, mut missing) = (0, Vec::new());
        for (path, attribute) in libvirt_schema_for_tests::read().leaves.into_keys() {
            let attribute = attribute.map_or(String::new(), |name| format!("/@{name}"));
            let path = format!("/{}{attribute}", path.join("/"));
            let is_below = |line: &&str| {
                let whole = line.strip_suffix("**");
                whole.is_some_and(|whole| path.starts_with(whole))
            };
            let pattern = PathPattern::parse(&path).unwrap();
            if !lines.iter().any(is_below) || dangerous_values(&pattern).is_empty() {
                continue;
            }
            found += 1;
            if !lines.contains(&path.as_str()) {
                missing.push(path);
            }
        }
        assert!(found > 0 && missing.is_empty(), "{missing:?}");
    }

    #[test]
    fn host_dependent_settings_may_change() {
        for (from, to) in [
            ("<title>t", "<title>u"),
            ("file='/a'", "file='/b'"),
            ("<disk type='file'", "<disk type='block'"),
            (
                "<source file='/a'/>",
                "<source dev='/b'><slices><slice type='storage' offset='0' size='1'/></slices></source>",
            ),
            ("cache='none'", "cache='writeback'"),
            ("dev='tap0'", "dev='tap1'"),
            (
                "<vcpu>",
                "<cputune><vcpupin vcpu='0' cpuset='3'/></cputune><vcpu>",
            ),
            ("</devices>", "<emulator>/usr/bin/q</emulator></devices>"),
            ("</type>", "</type><kernel>/k</kernel>"),
            ("<loader>/l", "<loader>/m"),
            ("</devices>", "<graphics type='vnc' port='-1'/></devices>"),
            (
                "</devices>",
                "<graphics type='vnc'><listen type='address' address='10.0.0.1'/></graphics></devices>",
            ),
            (
                "</devices>",
                "<graphics type='vnc'><listen type='network' network='n'/></graphics></devices>",
            ),
            (
                "<disk type='file' device='disk'>",
                "<disk type='file' device='disk'><boot order='1'/>",
            ),
            ("</domain>", "<seclabel type='none'/></domain>"),
            (
                "<model type='virtio'/>",
                "<model type='virtio'/><rom file='/r'/>",
            ),
            ("name='E' value='a'", "name='E' value='b'"),
        ] {
            assert_eq!(refused_path(from, to), None, "{to}");
        }
    }

    #[test]
    fn refused_changes_are_listed_and_accepted_ones_are_not() {
        let after = DOMAIN
            .replace("<title>t", "<title>u")
            .replace("<memory>1", "<memory>2");
        let [before, after] = [DOMAIN, &after].map(|xml| Document::parse(xml).unwrap());
        let changes = diff(&before, &after);
        let refused = refused(&changes, &before, &after);
        assert_eq!(changes.len(), 2);
        assert!(
            refused.len() == 1 && refused[0].path.contains("memory"),
            "{refused:?}"
        );
    }

    #[test]
    fn settings_that_the_guest_sees_may_not_change() {
        for (from, to, path) in [
            ("<memory>1", "<memory>2", "memory"),
            ("<vcpu>1", "<vcpu>2", "vcpu"),
            ("'serial'>1", "'serial'>2", "entry"),
            ("mode='sysinfo'", "mode='host'", "smbios"),
            ("queues='1'", "queues='2'", "queues"),
            ("<serial>s", "<serial>t", "serial"),
            ("dev='vda'", "dev='vdb'", "disk"),
            ("size='1500'", "size='9000'", "mtu"),
            ("00:01'", "00:02'", "interface"),
            (
                "</devices>",
                "<hostdev mode='subsystem' type='usb'><source><vendor id='0x1'/><product id='0x2'/></source></hostdev>\
                 </devices>",
                "hostdev",
            ),
            ("<loader>/l</loader>", "", "loader"),
            ("<loader>", "<loader type='pflash'>", "loader"),
            (
                "<model type='virtio'/>",
                "<model type='virtio'/><rom enabled='no'/>",
                "rom",
            ),
            (
                "<qemu:env",
                "<qemu:arg value='-device'/><qemu:arg value='edu'/><qemu:env",
                "qemu:arg",
            ),
            ("value='-S'", "value='-s'", "qemu:arg"),
            (
                "</devices>",
                "<rng model='virtio'><backend model='random'/></rng></devices>",
                "rng",
            ),
        ] {
            let refused = refused_path(from, to);
            assert!(
                refused
                    .as_deref()
                    .is_some_and(|refused| refused.contains(path)),
                "{to}: {refused:?}"
            );
        }
    }
}
