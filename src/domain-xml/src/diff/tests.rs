//! What counts as a change, and how changed elements are paired and named.

mod elements_without_keys;
mod time_and_memory_bounds;

use super::*;

fn changes_as_text(before: &str, after: &str) -> Vec<String> {
    let (before, after) = (
        Document::parse(before).unwrap(),
        Document::parse(after).unwrap(),
    );
    let changes = diff(&before, &after);
    for change in &changes {
        let place = if change.kind == ChangeKind::Inserted {
            &after
        } else {
            &before
        };
        assert_eq!(
            place.find_all(&change.path).unwrap().len(),
            1,
            "{} selects one place",
            change.path
        );
    }
    changes.iter().map(change_as_text).collect()
}

fn change_as_text(change: &Change) -> String {
    let sign = match change.kind {
        ChangeKind::Inserted => "+",
        ChangeKind::Removed => "-",
        ChangeKind::Edited => "~",
        ChangeKind::Moved => ">",
    };
    let values: Vec<&str> = [&change.before, &change.after]
        .into_iter()
        .flatten()
        .map(String::as_str)
        .collect();
    format!("{sign} {} {}", change.path, values.join(" => "))
}

#[test]
fn equivalent_documents_have_no_changes() {
    let before = "<domain type='kvm' xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'><name>a&amp;b</name><os><smbios mode='sysinfo'/></os><devices></devices><qemu:commandline><qemu:arg value='-S'/></qemu:commandline><metadata><kubevirt xmlns='http://kubevirt.io'><uid>1</uid></kubevirt></metadata></domain>";
    let after = "<?xml version=\"1.0\"?>\n<domain  xmlns:q=\"http://libvirt.org/schemas/domain/qemu/1.0\" type=\"kvm\" >\n  <!-- by hand -->\n  <name><![CDATA[a&b]]></name>\n  <os>\n    <smbios mode = 'sysinf&#111;'></smbios>\n  </os>\n  <devices>\n  </devices>\n  <q:commandline><q:arg value='-S'/></q:commandline>\n<metadata><k:kubevirt xmlns:k='http://kubevirt.io'><k:uid>1</k:uid></k:kubevirt></metadata></domain>\n";
    assert_eq!(changes_as_text(before, after), [""; 0]);
    assert_eq!(changes_as_text(after, before), [""; 0]);
}

#[test]
fn prefixes_with_another_namespace_are_changes() {
    let evil = "<domain xmlns:qemu='http://example.com'><qemu:commandline/></domain>";
    let good = "<domain xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'><qemu:commandline/></domain>";
    assert_eq!(changes_as_text(evil, good).len(), 2);
    assert_eq!(
        changes_as_text("<a xmlns:x='u'><x:b/></a>", "<a xmlns:y='u'><y:b/></a>"),
        [""; 0]
    );
}

#[test]
fn changes_of_disks_are_reported_by_target() {
    let disk = |dev: &str, more: &str| {
        format!("<disk type='file'>{more}<target dev='{dev}' bus='virtio'/></disk>")
    };
    let before = format!(
        "<domain><devices>{}{}</devices></domain>",
        disk("vda", ""),
        disk("vdb", "<driver name='qemu'/>")
    );
    let after = format!(
        "<domain><devices>{}{}{}</devices></domain>",
        disk("vdc", ""),
        disk("vda", "<driver queues='2'/>"),
        disk("vdb", "<driver name='qemu' queues='4'/>"),
    );
    assert_eq!(
        changes_as_text(&before, &after),
        [
            "+ /domain/devices/disk[target/@dev='vdc'] <disk type='file'><target dev='vdc' bus='virtio'/></disk>",
            "+ /domain/devices/disk[target/@dev='vda']/driver <driver queues='2'/>",
            "+ /domain/devices/disk[target/@dev='vdb']/driver/@queues 4",
        ]
    );
}

#[test]
fn disks_with_changed_targets_pair_by_alias() {
    let disk = |dev: &str| {
        format!("<domain><disk><target dev='{dev}'/><alias name='ua-root'/></disk></domain>")
    };
    assert_eq!(
        changes_as_text(&disk("vda"), &disk("sda")),
        ["~ /domain/disk[target/@dev='vda']/target/@dev vda => sda"]
    );
}

#[test]
fn entries_pair_by_name() {
    let board = |entries: &str| {
        format!(
            "<domain><sysinfo type='smbios'><baseBoard>{entries}</baseBoard></sysinfo></domain>"
        )
    };
    let before = board("<entry name='serial'>1</entry><entry name='manufacturer'>KubeVirt</entry>");
    let after = board("<entry name='manufacturer'>Acme</entry>");
    assert_eq!(
        changes_as_text(&before, &after),
        [
            "- /domain/sysinfo[@type='smbios']/baseBoard/entry[@name='serial'] <entry name='serial'>1</entry>",
            "~ /domain/sysinfo[@type='smbios']/baseBoard/entry[@name='manufacturer'] KubeVirt => Acme",
        ]
    );
}

/// What "remove all, then append" does, which is how community hooks rewrite devices.
#[test]
fn order_counts_among_siblings_of_one_name_only() {
    let devices = |inner: &str| format!("<domain><devices>{inner}</devices></domain>");
    let disks = [
        "<disk><target dev='vda'/></disk>",
        "<disk><target dev='vdb'/></disk>",
    ];
    let before = devices(&format!(
        "<emulator/>{}<video/>{}<memballoon/>",
        disks[0], disks[1]
    ));
    let after = devices(&format!(
        "<memballoon/><video/><emulator/>{}{}",
        disks[0], disks[1]
    ));
    assert_eq!(changes_as_text(&before, &after), [""; 0]);
    let swapped = devices(&format!(
        "<memballoon/><video/><emulator/>{}{}",
        disks[1], disks[0]
    ));
    assert_eq!(
        changes_as_text(&before, &swapped),
        ["> /domain/devices/disk[target/@dev='vda'] 1 => 2"]
    );
}

#[test]
fn reordering_is_one_move() {
    let before = "<os><boot dev='hd'/><boot dev='cdrom'/><boot dev='network'/></os>";
    let after = "<os><boot dev='network'/><boot dev='hd'/><boot dev='cdrom'/></os>";
    assert_eq!(
        changes_as_text(before, after),
        ["> /os/boot[@dev='network'] 3 => 1"]
    );
}

#[test]
fn changed_root_names_replace_the_document() {
    assert_eq!(
        changes_as_text("<domain/>", "<network/>"),
        ["- /domain <domain/>", "+ /network <network/>"]
    );
}
