//! Changes that put a boot from the network before the boot from a disk.

use super::*;

/// A domain with two disks and an interface, with these boot orders; empty for none.
fn domain(vda: &str, vdb: &str, interface: &str) -> String {
    let boot = |order: &str| match order {
        "" => String::new(),
        order => format!("<boot order='{order}'/>"),
    };
    format!(
        "<domain><devices><disk><target dev='vda'/>{}</disk><disk><target dev='vdb'/>{}</disk>\
         <interface type='ethernet'>{}</interface></devices></domain>",
        boot(vda),
        boot(vdb),
        boot(interface)
    )
}

/// A domain with this list in `<os>`.
fn listing(names: &[&str]) -> String {
    let boots: Vec<String> = names
        .iter()
        .map(|name| format!("<boot dev='{name}'/>"))
        .collect();
    format!("<domain><os>{}</os></domain>", boots.concat())
}

/// The kinds of danger in the changes.
fn kinds(before: &str, after: &str) -> Vec<DangerKind> {
    let (before, after) = (
        Document::parse(before).unwrap(),
        Document::parse(after).unwrap(),
    );
    let changes = diff(&before, &after);
    let dangers = changes.iter().flat_map(|c| dangers(c, &before, &after));
    dangers.map(|danger| danger.kind).collect()
}

#[test]
fn a_change_that_lets_the_network_boot_before_a_disk_must_be_granted_by_name() {
    let disk = &["/domain/devices/disk/boot/**"][..];
    let os = &["/domain/os/boot/**", "/domain/os"][..];
    for (name, before, after, patterns) in [
        (
            "the disk's order is removed",
            domain("1", "", "2"),
            domain("", "", "2"),
            disk,
        ),
        (
            "the disk's order is behind",
            domain("1", "", "2"),
            domain("3", "", "2"),
            disk,
        ),
        (
            "another disk, which may be empty, takes its place",
            domain("1", "", "2"),
            domain("3", "1", "2"),
            disk,
        ),
        (
            "one of two disks",
            domain("1", "2", "3"),
            domain("1", "4", "3"),
            disk,
        ),
        (
            "the order is no number any more",
            domain("1", "", "2"),
            domain("x", "", "2"),
            disk,
        ),
        (
            "a network card of the host",
            domain("1", "", "2").replace("interface", "hostdev"),
            domain("", "", "2").replace("interface", "hostdev"),
            disk,
        ),
        (
            "the whole disk is removed",
            domain("1", "", "2"),
            domain("1", "", "2").replace("<disk><target dev='vda'/><boot order='1'/></disk>", ""),
            disk,
        ),
        (
            "the list is exchanged",
            listing(&["hd", "network"]),
            listing(&["network", "hd"]),
            os,
        ),
        (
            "an entry is removed",
            listing(&["hd", "network"]),
            listing(&["network"]),
            os,
        ),
        (
            "another entry takes its place",
            listing(&["hd", "cdrom", "network"]),
            listing(&["cdrom", "network", "hd"]),
            os,
        ),
    ] {
        assert!(kinds(&before, &after).contains(&DangerKind::Boot), "{name}");
        assert!(!granted(&["/domain/**"], &before, &after), "{name}");
        assert!(
            granted(&[&["/domain/**"], patterns].concat(), &before, &after),
            "{name}"
        );
    }
}

#[test]
fn other_boot_orders_need_no_grant_by_name() {
    for (name, before, after) in [
        ("no network", domain("1", "2", ""), domain("2", "1", "")),
        (
            "no network, removed",
            domain("1", "", ""),
            domain("", "", ""),
        ),
        (
            "both before the network",
            domain("1", "2", "3"),
            domain("2", "1", "3"),
        ),
        ("a new order", domain("", "", "2"), domain("1", "", "2")),
        (
            "behind the network already",
            domain("3", "", "2"),
            domain("4", "", "2"),
        ),
        (
            "a list without the network",
            listing(&["hd", "cdrom"]),
            listing(&["cdrom", "hd"]),
        ),
    ] {
        assert_eq!(kinds(&before, &after), [], "{name}");
        assert!(granted(&["/domain/**"], &before, &after), "{name}");
    }
}
