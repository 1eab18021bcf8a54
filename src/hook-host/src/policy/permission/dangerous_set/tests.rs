mod libvirt_schema_names;

use std::collections::{BTreeMap, BTreeSet};

use domain_xml::{Document, diff};

use super::rule::{Rule, When};
use super::rule_table::{DANGEROUS_DEFAULTS, RULES};
use super::{DangerKind, INDEX, NodeLocation, REVIEWED_LIBVIRT, unreviewed_libvirt};
use crate::policy::permission::libvirt_schema_reader::{self, Leaf, Schema, Values};
use crate::policy::permission::{Checker, dangers};

/// For each rule that is about values: where, a harmless value, and a dangerous one.
const VALUES: &[(&str, &str, &str)] = &[
    ("/domain/@type", "kvm", "qemu"),
    ("/domain/on_crash", "destroy", "coredump-restart"),
    ("/domain/devices/disk/@type", "block", "dir"),
    ("/domain/devices/disk/backingStore/@type", "file", "network"),
    ("/domain/devices/disk/@device", "cdrom", "lun"),
    (
        "/domain/devices/tpm/backend/@type",
        "emulator",
        "passthrough",
    ),
    ("/domain/devices/smartcard/@mode", "passthrough", "host"),
    ("/domain/devices/input/@type", "tablet", "evdev"),
    ("/domain/devices/serial/@type", "pty", "file"),
    ("/domain/devices/parallel/@type", "null", "dev"),
    ("/domain/devices/console/@type", "pty", "tcp"),
    ("/domain/devices/channel/@type", "unix", "pipe"),
    ("/domain/devices/redirdev/@type", "spicevmc", "tcp"),
    ("/domain/devices/smartcard/@type", "spicevmc", "unix"),
    ("/domain/devices/graphics/@type", "vnc", "dbus"),
    ("/domain/devices/graphics/@keymap", "de", "etc/passwd"),
    (
        "/domain/devices/graphics/@listen",
        "::1",
        "::1]:7,vnc=unix:/x,vnc=[::1",
    ),
    (
        "/domain/devices/graphics/listen/@address",
        "vm-1.example.org",
        "0.0.0.0,reverse=on",
    ),
    (
        "/domain/devices/channel/target/@name",
        "org.qemu.guest_agent.0",
        "../../launcher-sock",
    ),
    ("/domain/devices/vsock/cid/@auto", "no", "yes"),
    ("/domain/sysinfo/entry", "a=b", "x,file=/etc/shadow"),
    (
        "/domain/sysinfo/entry/@name",
        "opt/x",
        "opt/x,file=/etc/shadow",
    ),
    ("/domain/devices/video/driver/@name", "qemu", "vhostuser"),
    ("/domain/devices/audio/@type", "none", "pulseaudio"),
    ("/domain/devices/graphics/gl/@enable", "no", "yes"),
    ("/domain/os/smbios/@mode", "sysinfo", "host"),
    ("/domain/devices/watchdog/@action", "reset", "dump"),
    ("/domain/memory/@dumpCore", "off", "on"),
    ("/domain/clock/@timezone", "Europe/Berlin", ":/etc/shadow"),
];

/// Where only an element that was there counts: a new one needs the grant of its source.
const TURN: &[&str] = &[
    "/domain/devices/disk/@type",
    "/domain/devices/disk/backingStore/@type",
];

/// A domain with this node, and the end of the path's last element.
fn domain(path: &str, value: &str) -> String {
    let mut steps: Vec<&str> = path.split('/').skip(2).collect();
    let attribute = match steps.last() {
        Some(last) if last.starts_with('@') => steps.pop(),
        _ => None,
    };
    let Some((last, around)) = steps.split_last() else {
        return format!("<domain {}='{value}'/>", &attribute.unwrap()[1..]);
    };
    let open: String = around.iter().map(|step| format!("<{step}>")).collect();
    let close: String = around
        .iter()
        .rev()
        .map(|step| format!("</{step}>"))
        .collect();
    let node = match attribute {
        Some(attribute) => format!("<{last} {}='{value}'/>", &attribute[1..]),
        None => format!("<{last}>{value}</{last}>"),
    };
    format!("<domain>{open}{node}{close}</domain>")
}

/// The kinds of danger in all changes, outer ones before those inside of them.
fn kinds(before: &str, after: &str) -> Vec<DangerKind> {
    let (before, after) = (
        Document::parse(before).unwrap(),
        Document::parse(after).unwrap(),
    );
    let changes = diff(&before, &after);
    assert!(!changes.is_empty());
    let found = changes
        .iter()
        .flat_map(|change| dangers(change, &before, &after));
    found.map(|danger| danger.kind).collect()
}

fn danger(before: &str, after: &str) -> Option<DangerKind> {
    kinds(before, after).first().copied()
}

/// The node that a rule is about, in a domain.
fn path_of(rule: &Rule) -> String {
    let parent = rule
        .parent
        .map_or(String::new(), |parent| format!("{parent}/"));
    let element = rule.element.unwrap_or("anything");
    let attribute = rule
        .attribute
        .map_or(String::new(), |name| format!("/@{name}"));
    format!("/domain/devices/{parent}{element}{attribute}")
}

#[test]
fn every_rule_without_values_tells_its_node_from_others() {
    for rule in RULES
        .iter()
        .filter(|rule| matches!(rule.when, When::Always))
    {
        let path = path_of(rule);
        let (none, one, other) = ("<domain/>", &domain(&path, "x"), &domain(&path, "y"));
        for (before, after) in [(none, one.as_str()), (one, none), (one, other)] {
            let found = kinds(before, after);
            assert!(found.contains(&rule.kind), "{path}: {found:?}");
        }
        let last = path.rfind(['/', '@']).unwrap() + 1;
        let other = format!("{}harmless", &path[..last]);
        let around: Vec<&str> = path.split('/').collect();
        let is_in_danger = around
            .iter()
            .any(|step| INDEX.contains_key(&(false, *step)));
        if rule.attribute.is_some() || !is_in_danger {
            // A new parent may be dangerous itself.
            let without = domain(path[..last].trim_end_matches(['/', '@']), "");
            assert_eq!(danger(&without, &domain(&other, "x")), None, "{other}");
        }
    }
}

#[test]
fn every_rule_of_values_tells_them_apart() {
    for (path, harmless, dangerous) in VALUES {
        let none = match path.contains("/vsock/") {
            // A new one is dangerous itself.
            true => "<domain><devices><vsock/></devices></domain>",
            false => "<domain/>",
        };
        let (good, bad) = (domain(path, harmless), domain(path, dangerous));
        let expected = kind_of(path);
        assert_eq!(danger(none, &good), None, "{path}");
        let if_new = expected.filter(|_| !TURN.contains(path));
        assert_eq!(danger(none, &bad), if_new, "{path}");
        assert_eq!(danger(&good, &bad), expected, "{path}");
        // Away from a dangerous value everyone may go.
        assert_eq!(danger(&bad, &good), None, "{path}");
    }
    let of_values = RULES
        .iter()
        .filter(|rule| matches!(rule.when, When::AddedOrChangedTo(_) | When::ChangedTo(_)));
    assert_eq!(of_values.count(), VALUES.len());
}

/// The class of a path by the names alone.
fn kind_of(path: &str) -> Option<DangerKind> {
    let document = Document::parse(&domain(path, "x")).unwrap();
    let kinds = Checker::new(&[], &document, &document).kinds_of_names(true);
    kinds.first().copied()
}

#[test]
fn every_default_that_is_dangerous_is_of_an_attribute_with_a_rule() {
    for default in DANGEROUS_DEFAULTS {
        let new = format!("<domain><devices><{}/></devices></domain>", default.element);
        let path = format!("/domain/devices/{}/@{}", default.element, default.attribute);
        assert!(danger("<domain/>", &new).is_some(), "{path}");
        assert_eq!(danger("<domain/>", &new), kind_of(&path), "{path}");
    }
}

#[test]
fn a_removed_readonly_is_dangerous_and_a_removed_disk_is_not() {
    let disk = |inside: &str| format!("<domain><devices><disk>{inside}</disk></devices></domain>");
    let kind = Some(DangerKind::DiskAccess);
    assert_eq!(danger(&disk("<readonly/>"), &disk("")), kind);
    assert_eq!(danger(&disk(""), &disk("<readonly/>")), None);
    let none = "<domain><devices/></domain>";
    assert_eq!(danger(&disk("<readonly/>"), none), None);
    assert_eq!(danger(&disk("<shareable/>"), none), kind);
}

#[test]
fn names_of_classes_are_read_back() {
    for kind in DangerKind::ALL {
        assert_eq!(kind.name().parse(), Ok(*kind));
        assert_eq!(kind.name(), format!("{kind:?}"));
    }
    let error = "Disk".parse::<DangerKind>().unwrap_err().to_string();
    assert!(error.contains("DiskFormat"), "{error}");
}

#[test]
fn a_newer_libvirt_is_reported() {
    assert_eq!(unreviewed_libvirt(11_003_000), None);
    assert_eq!(unreviewed_libvirt(11_003_009), None);
    assert_eq!(unreviewed_libvirt(9_000_000), None);
    for newer in [11_004_000, 12_000_000] {
        let warning = unreviewed_libvirt(newer).unwrap();
        assert!(warning.contains("newer than 11.3"), "{warning}");
    }
}

#[test]
fn presence_decides_about_values() {
    let document = Document::parse("<on_crash>coredump-destroy</on_crash>").unwrap();
    let kind = |location| super::of_element(document.root(), None, location);
    assert_eq!(kind(NodeLocation::After), Some(DangerKind::CoreDump));
    assert_eq!(kind(NodeLocation::InPattern), Some(DangerKind::CoreDump));
    assert_eq!(kind(NodeLocation::Before), None);
}

/// libvirt reads `coredump-destroy` here.
#[test]
fn text_in_several_nodes_is_dangerous() {
    let split = "<domain><on_crash>core<x>dump-destroy</x></on_crash></domain>";
    let plain = "<domain><on_crash>destroy</on_crash></domain>";
    let kind = Some(DangerKind::CoreDump);
    assert_eq!(danger("<domain/>", split), kind);
    assert_eq!(danger(plain, split), kind);
    assert_eq!(danger(split, plain), None);
    let entry = "<domain><sysinfo><entry>a<x>,file=/etc/shadow</x></entry></sysinfo></domain>";
    assert_eq!(danger("<domain/>", entry), Some(DangerKind::Hypervisor));
}

/// A socket of its own does not make a channel's name harmless: QEMU's is made by the name where there is no source.
#[test]
fn what_libvirt_does_not_escape_is_found_in_new_and_in_changed_elements() {
    let agent = "<domain><devices><channel type='unix'><target type='virtio' name='org.qemu.guest_agent.0'/>\
                 </channel></devices></domain>";
    let elsewhere = agent.replace("org.qemu", "../../run/org.qemu");
    assert_eq!(danger(agent, &elsewhere), Some(DangerKind::HostPath));
    assert_eq!(danger("<domain/>", &elsewhere), Some(DangerKind::HostPath));
    assert_eq!(danger("<domain/>", agent), None);
    let unix = "<domain><devices><graphics type='vnc' listen='unix'/></devices></domain>";
    assert_eq!(danger("<domain/>", unix), Some(DangerKind::HostDisplay));
    let smbios = "<domain><sysinfo type='smbios'><system><entry name='serial'>,file=/x</entry></system></sysinfo></domain>";
    assert_eq!(danger("<domain/>", smbios), None);
}
