#![allow(clippy::unwrap_used)]

use super::*;

fn told(before: &str, after: &str) -> Vec<String> {
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
    changes.iter().map(tell).collect()
}

fn tell(change: &Change) -> String {
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
    assert_eq!(told(before, after), [""; 0]);
    assert_eq!(told(after, before), [""; 0]);
}

#[test]
fn prefixes_with_another_namespace_are_changes() {
    let evil = "<domain xmlns:qemu='http://example.com'><qemu:commandline/></domain>";
    let good = "<domain xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'><qemu:commandline/></domain>";
    assert_eq!(told(evil, good).len(), 2);
    assert_eq!(
        told("<a xmlns:x='u'><x:b/></a>", "<a xmlns:y='u'><y:b/></a>"),
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
        told(&before, &after),
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
        told(&disk("vda"), &disk("sda")),
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
        told(&before, &after),
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
    assert_eq!(told(&before, &after), [""; 0]);
    let swapped = devices(&format!(
        "<memballoon/><video/><emulator/>{}{}",
        disks[1], disks[0]
    ));
    assert_eq!(
        told(&before, &swapped),
        ["> /domain/devices/disk[target/@dev='vda'] 1 => 2"]
    );
}

#[test]
fn reordering_is_one_move() {
    let before = "<os><boot dev='hd'/><boot dev='cdrom'/><boot dev='network'/></os>";
    let after = "<os><boot dev='network'/><boot dev='hd'/><boot dev='cdrom'/></os>";
    assert_eq!(told(before, after), ["> /os/boot[@dev='network'] 3 => 1"]);
}

#[test]
fn duplicate_keys_fall_back_to_position() {
    let args = |values: &[&str]| {
        let args: String = values
            .iter()
            .map(|value| format!("<q:arg value='{value}'/>"))
            .collect();
        format!(
            "<domain xmlns:q='http://libvirt.org/schemas/domain/qemu/1.0'><q:commandline>{args}</q:commandline></domain>"
        )
    };
    assert_eq!(
        told(
            &args(&["-device", "a"]),
            &args(&["-device", "a", "-device", "b"])
        ),
        [
            "+ /domain/qemu:commandline/qemu:arg[3] <q:arg value='-device'/>",
            "+ /domain/qemu:commandline/qemu:arg[@value='b'] <q:arg value='b'/>",
        ]
    );
}

#[test]
fn elements_without_a_key_pair_by_position() {
    assert_eq!(
        told("<a><b x='1'/><b x='2'/></a>", "<a><b x='1'/><b x='3'/></a>"),
        ["~ /a/b[2]/@x 2 => 3"]
    );
    assert_eq!(
        told("<a><vendor id='1'/></a>", "<a><vendor id='2'/></a>"),
        ["~ /a/vendor/@id 1 => 2"]
    );
    assert_eq!(
        told("<a><video/></a>", "<a><video><alias name='v'/></video></a>"),
        ["+ /a/video/alias <alias name='v'/>"]
    );
}

#[test]
fn elements_without_a_key_pair_by_equal_content() {
    let hostdevs = |buses: &[u8]| {
        let list = buses
            .iter()
            .map(|bus| format!("<hostdev><address bus='{bus}'/></hostdev>"));
        format!("<devices>{}</devices>", list.collect::<String>())
    };
    assert_eq!(
        told(&hostdevs(&[1, 2]), &hostdevs(&[9, 1, 2])),
        ["+ /devices/hostdev[1] <hostdev><address bus='9'/></hostdev>"]
    );
    assert_eq!(
        told(&hostdevs(&[1, 2, 3]), &hostdevs(&[1, 3])),
        ["- /devices/hostdev[2] <hostdev><address bus='2'/></hostdev>"]
    );
    assert_eq!(
        told(&hostdevs(&[1, 2]), &hostdevs(&[2, 1])),
        ["> /devices/hostdev[1] 1 => 2"]
    );
    assert_eq!(
        told(&hostdevs(&[1, 2]), &hostdevs(&[1, 3])),
        ["~ /devices/hostdev[2]/address/@bus 2 => 3"]
    );
    // However it is written.
    assert_eq!(
        told(
            "<a><rng>x&amp;</rng><rng><![CDATA[x&]]></rng></a>",
            "<a><rng><![CDATA[x&]]></rng><rng>x&#38;</rng></a>"
        ),
        [""; 0]
    );
}

#[test]
fn changed_root_names_replace_the_document() {
    assert_eq!(
        told("<domain/>", "<network/>"),
        ["- /domain <domain/>", "+ /network <network/>"]
    );
}

#[test]
fn unquotable_keys_fall_back_to_position() {
    let both = "<a><b name='&apos;&quot;' x='1'/></a>";
    assert_eq!(
        told(both, &both.replace("'1'", "'2'")),
        ["~ /a/b/@x 1 => 2"]
    );
    let long = format!("<a><b name='{}' x='1'/><b x='1'/></a>", "n".repeat(1000));
    assert_eq!(
        told(&long, &long.replace("x='1'", "x='2'")),
        ["~ /a/b[1]/@x 1 => 2", "~ /a/b[2]/@x 1 => 2"]
    );
    assert_eq!(
        told(
            "<a><timer name=\"it's\" x='1'/></a>",
            "<a><timer name=\"it's\"/></a>"
        ),
        ["- /a/timer[@name=\"it's\"]/@x 1"]
    );
}

#[test]
fn diffs_of_hostile_input_are_bounded() {
    let key = "k".repeat(128);
    let nest = |value: &str| {
        let open: String = (0..100).map(|_| format!("<n name='{key}'>")).collect();
        let leaves: String = (0..20_000)
            .map(|n| format!("<l a='{value}{n}'/>"))
            .collect();
        format!("<domain>{open}{leaves}{}</domain>", "</n>".repeat(100))
    };
    let (before, after) = (
        Document::parse(&nest("x")).unwrap(),
        Document::parse(&nest("y")).unwrap(),
    );
    let changes = diff(&before, &after);
    assert_eq!(changes.len(), 1);
    assert_eq!(
        (changes[0].path.as_str(), changes[0].kind),
        ("/domain", ChangeKind::Edited)
    );
}

/// Each path has the long name in it: without a limit the diffs would take 200 MB.
#[test]
fn a_diff_stops_before_its_text_fills_the_memory() {
    let name = "n".repeat(100_000);
    let document = |inside: &str| {
        let xml = format!("<domain><{name} {inside}</{name}></domain>");
        Document::parse(&xml).unwrap()
    };
    let empty = document(">");
    let attributes: String = (0..250).map(|index| format!("a{index}='' ")).collect();
    let namespaced = format!("xmlns:x='{name}'>{}", "<b x:a=''/>".repeat(2000));
    for full in [
        document(&format!(">{}", "<b/>".repeat(2000))),
        document(&format!("{attributes}>")),
        document(&namespaced),
    ] {
        for (before, after) in [(&empty, &full), (&full, &empty)] {
            let memory = allocation_counter::measure(|| {
                let changes = diff(before, after);
                assert!(!changes.is_empty());
            });
            assert!(memory.bytes_max < 32 << 20, "{memory:?}");
        }
    }
}
