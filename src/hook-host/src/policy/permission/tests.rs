//! Whether patterns permit changes of a domain.

mod check_costs;
mod conditions;
mod containers;
mod dangerous_defaults;
mod dangerous_set;
mod network_boot;
mod patterns;

use domain_xml::host::{ChangeKind, diff};

use super::*;

const DOMAIN: &str = "<domain type='kvm' xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'>\
<name>ns_vm</name><uuid>u</uuid>\
<metadata><kubevirt xmlns='http://kubevirt.io'><uid>7</uid></kubevirt><other/></metadata>\
<os><boot dev='hd'/><boot dev='network'/></os>\
<devices><emulator>/usr/bin/qemu</emulator>\
<disk type='file' device='disk'><driver name='qemu' type='raw'/><source file='/a'/><target dev='vda'/><alias name='ua-a'/></disk>\
<disk type='file' device='disk'><driver name='qemu' type='raw'/><source file='/b'/><target dev='vdb'/><alias name='ua-b'/></disk>\
<hostdev><source><address bus='1'/></source></hostdev>\
<graphics type='vnc'/></devices></domain>";

fn paths(patterns: &[&str]) -> Vec<ConditionedPath> {
    let parsed = patterns
        .iter()
        .map(|path| PathPattern::parse(path).unwrap());
    parsed.map(ConditionedPath::from).collect()
}

/// The permission of each change between the documents.
fn permissions(patterns: &[&str], before: &str, after: &str) -> Vec<Permission> {
    let patterns = paths(patterns);
    let (before, after) = (
        Document::parse(before).unwrap(),
        Document::parse(after).unwrap(),
    );
    let changes = diff(&before, &after);
    assert!(!changes.is_empty());
    let mut checker = Checker::new(&patterns, &before, &after);
    changes.iter().map(|c| checker.permits(c)).collect()
}

/// Whether the patterns permit all changes between the documents.
fn granted(patterns: &[&str], before: &str, after: &str) -> bool {
    let permissions = permissions(patterns, before, after);
    permissions
        .iter()
        .all(|permission| matches!(permission, Permission::Granted { .. }))
}

/// [`DOMAIN`] with the first `from` replaced by `to`.
fn edit(from: &str, to: &str) -> String {
    let edited = DOMAIN.replacen(from, to, 1);
    assert_ne!(edited, DOMAIN, "{from}");
    edited
}

/// The first refusal of the changes that [`edit`] makes.
fn refusal(patterns: &[&str], from: &str, to: &str) -> Refusal {
    let permissions = permissions(patterns, DOMAIN, &edit(from, to));
    let refused = permissions
        .into_iter()
        .find_map(|permission| match permission {
            Permission::Refused(refusal) => Some(refusal),
            Permission::Granted { .. } => None,
        });
    refused.unwrap()
}

/// Whether the patterns permit all changes that [`edit`] makes.
fn grants_edit(patterns: &[&str], from: &str, to: &str) -> bool {
    granted(patterns, DOMAIN, &edit(from, to))
}

/// The first kind of the dangerous set to which a change that [`edit`] makes belongs.
fn danger_kind(from: &str, to: &str) -> Option<DangerKind> {
    let (before, after) = (
        Document::parse(DOMAIN).unwrap(),
        Document::parse(&edit(from, to)).unwrap(),
    );
    let changes = diff(&before, &after);
    changes.iter().find_map(|c| dangerous(c, &before, &after))
}

/// A pattern of the first disk of [`DOMAIN`].
const VDA: &str = "/domain/devices/disk[target/@dev='vda']";

#[test]
fn reordered_children_need_a_pattern_for_the_parent() {
    let with_boots = |boots: &str| edit("<boot dev='hd'/><boot dev='network'/>", boots);
    let before = with_boots("<boot dev='network'/><boot dev='hd'/>");
    for pattern in ["/domain/os", "/domain/os/**"] {
        assert!(granted(&[pattern], &before, DOMAIN), "{pattern}");
    }
    let refused = permissions(&["/domain/os/boot/**"], &before, DOMAIN);
    let [Permission::Refused(refused)] = &refused[..] else {
        panic!("{refused:?}");
    };
    assert_eq!(
        (
            &refused.reason,
            refused.path.as_str(),
            refused.suggested_pattern.as_deref()
        ),
        (
            &RefusalReason::ReorderedChildren,
            "/domain/os",
            Some("/domain/os")
        )
    );
    // A pattern must also name a dangerous child.
    let emulators = ["qemu", "other"].map(|name| format!("<emulator>/usr/bin/{name}</emulator>"));
    let with_emulators = |order: [&str; 2]| edit(&emulators[0], &order.concat());
    let before = with_emulators([&emulators[0], &emulators[1]]);
    let moved = with_emulators([&emulators[1], &emulators[0]]);
    assert!(!granted(&["/domain/devices/**"], &before, &moved));
    assert!(granted(
        &["/domain/devices/**", "/domain/devices/emulator"],
        &before,
        &moved
    ));
}

#[test]
fn no_pattern_permits_reserved_nodes() {
    let all = [
        "/domain/**",
        "/domain/name",
        "/domain/uuid",
        "/domain/metadata/kubevirt/**",
        "/domain/metadata/**",
        "**",
    ];
    for (from, to) in [
        ("ns_vm", "other"),
        ("<name>ns_vm</name>", ""),
        ("<uuid>", "<name>ns_vm</name><uuid>"),
        ("<uuid>", "<x:name xmlns:x='u'>ns_vm</x:name><uuid>"),
        ("<uuid>u", "<uuid>v"),
        ("<uuid>u", "<uuid><![CDATA[v]]>"),
        ("<uuid>u", "<uuid x='1'>u"),
        ("<uid>7", "<uid>8"),
        ("<metadata>", "<metadata><kubevirt/>"),
        (
            "<metadata>",
            "<metadata><x:evil xmlns:x='http://kubevirt.io'/>",
        ),
        ("<metadata>", "<metadata><evil xmlns='http://kubevirt.io'/>"),
        (
            "xmlns='http://kubevirt.io'",
            "xmlns='http://kubevirt.example'",
        ),
        ("<domain type='kvm'", "<x:domain xmlns:x='u'"),
    ] {
        let after = edit(from, to).replace(
            "</domain>",
            if to.contains("x:domain") {
                "</x:domain>"
            } else {
                "</domain>"
            },
        );
        assert!(!granted(&all, DOMAIN, &after), "{to}");
    }
    assert!(granted(&all, DOMAIN, &edit("<other/>", "<other x='1'/>")));
    let refused = refusal(&all, "ns_vm", "other");
    assert_eq!(
        (refused.reason, refused.suggested_pattern),
        (RefusalReason::Reserved(ReservedNode::Name), None)
    );
    let refusal_of_metadata = refusal(
        &all,
        "<metadata><kubevirt xmlns='http://kubevirt.io'><uid>7</uid></kubevirt><other/></metadata>",
        "",
    );
    assert_eq!(
        refusal_of_metadata.reason,
        RefusalReason::Reserved(ReservedNode::Metadata)
    );
}

#[test]
fn removing_the_first_of_two_elements_that_libvirt_reads_once_needs_a_grant_for_both() {
    // The first <driver> has no format; without it, the second one's format counts.
    let (both_drivers, second_driver) = (
        "<driver io='native'/><driver name='qemu' type='raw'/>",
        "<driver name='qemu' type='raw'/>",
    );
    let before = DOMAIN.replacen(second_driver, both_drivers, 1);
    assert_ne!(before, DOMAIN);
    let all = ["/domain/devices/disk/driver/**"];
    let format = "/domain/devices/disk/driver/@type";
    assert!(!granted(&all, &before, DOMAIN));
    assert!(granted(&[all[0], format], &before, DOMAIN));
    // Elements of lists are matched by key: a new disk changes no other disk.
    let disk = "<disk><target dev='vdc'/></disk><hostdev>";
    assert!(grants_edit(
        &["/domain/devices/disk[target/@dev='vdc']/**"],
        "<hostdev>",
        disk
    ));
}

#[test]
fn changes_that_are_not_of_the_diff_are_refused() {
    let document = Document::parse(DOMAIN).unwrap();
    let change_not_from_diff = Change::new(
        "/domain/os/@x",
        ChangeKind::Inserted,
        None,
        Some("1".into()),
    );
    let all = paths(&["/domain/**"]);
    let Permission::Refused(refused) = permits(&all, &change_not_from_diff, &document, &document)
    else {
        panic!("granted");
    };
    assert_eq!(refused.reason, RefusalReason::NotInDiff);
    // A change of other documents is refused too.
    let (a, b) = (
        Document::parse("<a><b/></a>").unwrap(),
        Document::parse("<a><b/><c/><d x='1'/></a>").unwrap(),
    );
    let changes = diff(&a, &b);
    assert!(
        changes
            .iter()
            .any(|c| matches!(permits(&all, c, &b, &a), Permission::Refused(_)))
    );
}
