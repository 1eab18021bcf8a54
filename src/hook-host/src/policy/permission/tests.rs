use domain_xml::{ChangeKind, diff};

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

/// What the patterns say to each change between the documents.
fn verdicts(patterns: &[&str], before: &str, after: &str) -> Vec<Permission> {
    let parsed = patterns.iter().map(|p| PathPattern::parse(p).unwrap());
    let patterns: Vec<PathPattern> = parsed.collect();
    let (before, after) = (
        Document::parse(before).unwrap(),
        Document::parse(after).unwrap(),
    );
    let changes = diff(&before, &after);
    assert!(!changes.is_empty());
    let mut checker = Checker::new(&patterns, &before, &after);
    changes.iter().map(|c| checker.permits(c)).collect()
}

fn granted(patterns: &[&str], before: &str, after: &str) -> bool {
    let verdicts = verdicts(patterns, before, after);
    verdicts
        .iter()
        .all(|v| matches!(v, Permission::Granted { .. }))
}

fn edit(from: &str, to: &str) -> String {
    let edited = DOMAIN.replacen(from, to, 1);
    assert_ne!(edited, DOMAIN, "{from}");
    edited
}

fn refusal(patterns: &[&str], from: &str, to: &str) -> Refusal {
    let verdicts = verdicts(patterns, DOMAIN, &edit(from, to));
    let refused = verdicts.into_iter().find_map(|verdict| match verdict {
        Permission::Refused(refusal) => Some(refusal),
        Permission::Granted { .. } => None,
    });
    refused.unwrap()
}

fn grants(patterns: &[&str], from: &str, to: &str) -> bool {
    granted(patterns, DOMAIN, &edit(from, to))
}

fn danger(from: &str, to: &str) -> Option<DangerKind> {
    let (before, after) = (
        Document::parse(DOMAIN).unwrap(),
        Document::parse(&edit(from, to)).unwrap(),
    );
    let changes = diff(&before, &after);
    changes.iter().find_map(|c| dangerous(c, &before, &after))
}

const VDA: &str = "/domain/devices/disk[target/@dev='vda']";

#[test]
fn a_pattern_permits_what_it_selects() {
    let queues = format!("{VDA}/driver/@queues");
    let (from, to) = (
        "name='qemu' type='raw'/><source file='/a'",
        "name='qemu' type='raw' queues='4'/><source file='/a'",
    );
    assert!(grants(&[&queues], from, to));
    assert!(grants(&[&format!("{VDA}/**")], from, to));
    assert!(grants(&[&format!("{VDA}/driver/@*")], from, to));
    assert!(grants(&["devices/disk/driver/@queues"], from, to));
    assert!(grants(&["/domain/devices/*/driver/**"], from, to));
    for not in [
        "/domain/devices/disk/driver",
        "/domain/devices/disk[target/@dev='vdb']/**",
        "/domain/devices",
        "/other/**",
    ] {
        let refusal = refusal(&[not], from, to);
        assert!(matches!(refusal.reason, Reason::NoPattern { .. }), "{not}");
        assert_eq!(refusal.hint.as_deref(), Some(queues.as_str()));
    }
    let both = verdicts(&["/x", &queues], DOMAIN, &edit(from, to));
    assert_eq!(both, [Permission::Granted { by: vec![1] }]);
}

#[test]
fn an_element_with_content_needs_a_pattern_for_all_of_it() {
    let (from, to) = (
        "<os>",
        "<os firmware='efi'><smbios mode='sysinfo'><x/></smbios>",
    );
    assert!(grants(&["/domain/os/**"], from, to));
    assert!(grants(
        &["/domain/os/smbios/**", "/domain/os/@firmware"],
        from,
        to
    ));
    assert!(grants(
        &[
            "/domain/os/smbios",
            "/domain/os/*/@mode",
            "/domain/os/@*",
            "/domain/os/smbios/x"
        ],
        from,
        to
    ));
    let told = refusal(&["/domain/os/smbios", "/domain/os/@firmware"], from, to);
    assert_eq!(told.path, "/domain/os/smbios/@mode");
    assert_eq!(told.reason, Reason::NoPattern { nearest: Some(0) });
    assert_eq!(told.hint.as_deref(), Some("/domain/os/smbios/@mode"));
    let told = refusal(&["/domain/os/@firmware"], from, to);
    assert_eq!(
        (told.path.as_str(), told.hint.as_deref()),
        ("/domain/os/smbios", Some("/domain/os/smbios"))
    );
    // Removing is as much.
    let fuller = edit(from, to);
    assert!(granted(&["/domain/os/**"], &fuller, DOMAIN));
    assert!(!granted(
        &["/domain/os/smbios", "/domain/os/@firmware"],
        &fuller,
        DOMAIN
    ));
}

#[test]
fn predicates_hold_where_the_change_is() {
    let disk = |more: &str| format!("<disk><target dev='vdc'/>{more}</disk><hostdev>");
    assert!(grants(
        &["/domain/devices/disk[target/@dev='vdc']/**"],
        "<hostdev>",
        &disk("")
    ));
    assert!(!grants(
        &["/domain/devices/disk[target/@dev='vdd']/**"],
        "<hostdev>",
        &disk("")
    ));
    assert!(granted(
        &["/domain/devices/disk[target/@dev='vdc']/**"],
        &edit("<hostdev>", &disk("")),
        DOMAIN
    ));
    // An identity cannot be taken on, given away, or borrowed for a moment.
    let all = format!("{VDA}/**");
    assert!(!grants(&[&all], "dev='vda'", "dev='vdc'"));
    assert!(!grants(
        &[&all.replace("vda", "vdc")],
        "dev='vda'",
        "dev='vdc'"
    ));
    assert!(!grants(
        &[&all],
        "<target dev='vdb'/>",
        "<target dev='vdb'/><target dev='vda'/>"
    ));
    assert!(!grants(&[&all], "<target dev='vda'/>", ""));
    assert!(grants(
        &["/domain/devices/disk[alias/@name='ua-a']/target/@dev"],
        "dev='vda'",
        "dev='vdc'"
    ));
    assert!(grants(
        &["/domain/devices/disk[1]/target/@dev"],
        "dev='vda'",
        "dev='vdc'"
    ));
    assert!(!grants(
        &["/domain/devices/disk[2]/target/@dev"],
        "dev='vda'",
        "dev='vdc'"
    ));
    // What the hint offers has been tried.
    let told = refusal(&[], "dev='vda'", "dev='vdc'");
    assert_eq!(
        told.hint.as_deref(),
        Some("/domain/devices/disk/target/@dev")
    );
}

#[test]
fn a_shared_identity_is_refused_under_predicates() {
    let twin = "<disk device='disk'><target dev='vda'/><alias name='ua-z'/></disk><hostdev>";
    let all = format!("{VDA}/**");
    let told = refusal(&[&all], "<hostdev>", twin);
    assert_eq!(told.reason, Reason::Ambiguous { pattern: 0 });
    let twins = edit("<hostdev>", twin);
    let cached = twins.replacen("name='qemu' ", "name='qemu' cache='none' ", 1);
    for pattern in [
        all.as_str(),
        "/domain/devices/disk[@device='disk']/driver/@cache",
        "/domain/devices/disk[alias/@name='ua-a']/driver/@cache",
    ] {
        assert!(!granted(&[pattern], &twins, &cached), "{pattern}");
        assert!(pattern == all || grants(&[pattern], "name='qemu' ", "name='qemu' cache='none' "));
    }
    assert!(granted(
        &["/domain/devices/disk/driver/@cache"],
        &twins,
        &cached
    ));
}

#[test]
fn a_reorder_is_a_move_of_the_parents() {
    let (from, to) = (
        "<boot dev='hd'/><boot dev='network'/>",
        "<boot dev='network'/><boot dev='hd'/>",
    );
    assert!(grants(&["/domain/os"], from, to));
    assert!(grants(&["/domain/os/**"], from, to));
    let told = refusal(&["/domain/os/boot/**"], from, to);
    assert_eq!(
        (told.reason, told.path.as_str(), told.hint.as_deref()),
        (Reason::Move, "/domain/os", Some("/domain/os"))
    );
    // The dangerous child needs its name as well.
    let emulators = ["qemu", "other"].map(|name| format!("<emulator>/usr/bin/{name}</emulator>"));
    let of = |order: [&str; 2]| edit(&emulators[0], &order.concat());
    let before = of([&emulators[0], &emulators[1]]);
    let moved = of([&emulators[1], &emulators[0]]);
    assert!(!granted(&["/domain/devices/**"], &before, &moved));
    assert!(granted(
        &["/domain/devices/**", "/domain/devices/emulator"],
        &before,
        &moved
    ));
}

#[test]
fn what_is_reserved_is_permitted_by_nothing() {
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
    let told = refusal(&all, "ns_vm", "other");
    assert_eq!(
        (told.reason, told.hint),
        (Reason::Reserved(Reserved::Name), None)
    );
    let gone = refusal(
        &all,
        "<metadata><kubevirt xmlns='http://kubevirt.io'><uid>7</uid></kubevirt><other/></metadata>",
        "",
    );
    assert_eq!(gone.reason, Reason::Reserved(Reserved::Metadata));
}

#[test]
fn no_wildcard_matches_the_dangerous_set() {
    use DangerKind::*;
    for (kind, from, to, pattern) in [
        (
            Hypervisor,
            "</domain>",
            "<qemu:commandline><qemu:arg value='-S'/></qemu:commandline></domain>",
            "/domain/qemu:commandline/**",
        ),
        (
            Hypervisor,
            "</domain>",
            "<z:commandline xmlns:z='http://libvirt.org/schemas/domain/qemu/1.0'/></domain>",
            "/domain/qemu:commandline",
        ),
        (
            Hypervisor,
            "</domain>",
            "<commandline xmlns='http://libvirt.org/schemas/domain/qemu/1.0'/></domain>",
            "/domain/qemu:commandline",
        ),
        (
            Emulator,
            "/usr/bin/qemu",
            "/bin/sh",
            "/domain/devices/emulator",
        ),
        (
            Emulator,
            "/usr/bin/qemu",
            "/usr/bin/<![CDATA[../sh]]>",
            "/domain/devices/emulator",
        ),
        (
            Emulator,
            "<emulator>",
            "<x:emulator xmlns:x='u'>/bin/sh</x:emulator><emulator>",
            "",
        ),
        (Boot, "<os>", "<os><kernel>/k</kernel>", "/domain/os/kernel"),
        (
            Boot,
            "<os>",
            "<os><loader readonly='no'>/k</loader>",
            "/domain/os/loader/**",
        ),
        (
            Boot,
            "<os>",
            "<os><acpi><table>/etc/shadow</table></acpi>",
            "/domain/os/acpi/**",
        ),
        (
            Script,
            "<graphics",
            "<interface><script path='/x'/></interface><graphics",
            "",
        ),
        (
            SecurityLabel,
            "</domain>",
            "<seclabel type='none'/></domain>",
            "/domain/seclabel/**",
        ),
        (
            Source,
            "file='/a'",
            "file='/etc/shadow'",
            "/domain/devices/disk/source/@file",
        ),
        (
            Source,
            "file='/a'",
            "file='/a' x:file='/etc/shadow' xmlns:x='u'",
            "/domain/devices/disk/source/@x:file",
        ),
        (
            Source,
            "<source file='/a'/>",
            "<source file='/a'/><backingStore><source dev='/dev/sda'/></backingStore>",
            "",
        ),
        (
            HostPath,
            "</domain>",
            "<sysinfo type='fwcfg'><entry name='opt/x' file='/etc/shadow'/></sysinfo></domain>",
            "",
        ),
        (
            HostPath,
            "type='vnc'",
            "type='vnc' socket='/s'",
            "/domain/devices/graphics/@socket",
        ),
        (
            DiskFormat,
            "type='raw'",
            "type='qcow2'",
            "/domain/devices/disk/driver/@type",
        ),
        (
            Filesystem,
            "<graphics",
            "<filesystem><target dir='x'/></filesystem><graphics",
            "/domain/devices/filesystem/**",
        ),
        (
            HostDevice,
            "bus='1'",
            "bus='2'",
            "/domain/devices/hostdev/**",
        ),
        (
            HostDevice,
            "<hostdev>",
            "<hostdev/><hostdev>",
            "/domain/devices/hostdev/**",
        ),
    ] {
        assert_eq!(danger(from, to), Some(kind), "{to}");
        for wide in [
            "/domain/**",
            "**",
            "/domain/*/**",
            "/domain/qemu:*/**",
            "/domain/devices/*/*/@*",
            "/domain/devices/disk/**",
            "/domain/devices/**",
        ] {
            assert!(!grants(&[wide], from, to), "{wide} {to}");
        }
        assert_eq!(
            refusal(&["/domain/**"], from, to).reason,
            Reason::Dangerous(kind),
            "{to}"
        );
        if !pattern.is_empty() {
            assert!(grants(&[pattern], from, to), "{pattern} {to}");
        }
    }
    // A label inside what is granted is not granted with it.
    let labelled = "<source file='/a'><seclabel relabel='no'/></source>";
    assert!(!grants(
        &["/domain/devices/disk/source/**"],
        "<source file='/a'/>",
        labelled
    ));
    assert!(grants(
        &["/domain/devices/disk/source/seclabel/**"],
        "<source file='/a'/>",
        labelled
    ));
    assert_eq!(danger("<os>", "<os firmware='efi'>"), None);
}

#[test]
fn a_change_is_seen_as_what_it_is() {
    // Two disks trade their names: the sources changed.
    let traded = DOMAIN
        .replace("vda", "vd?")
        .replace("vdb", "vda")
        .replace("vd?", "vdb")
        .replace("ua-a", "ua-?")
        .replace("ua-b", "ua-a")
        .replace("ua-?", "ua-b");
    assert!(!granted(
        &[
            "/domain/devices",
            "/domain/devices/disk/target/**",
            "/domain/devices/disk/alias/**"
        ],
        DOMAIN,
        &traded
    ));
    // The prefix that is granted means something else now, so it is no longer that element.
    let foreign = edit(
        "schemas/domain/qemu/1.0'",
        "schemas/domain/qemu/1.0' xmlns:x='u'",
    )
    .replace("<graphics type='vnc'/>", "<x:graphics type='vnc'/>");
    assert!(!granted(
        &["/domain/devices/graphics/@type"],
        DOMAIN,
        &foreign
    ));
    // What libvirt would read as another target is no wildcard's to give.
    let (from, to) = (
        "<target dev='vdb'/>",
        "<target x:dev='vda' dev='vdb' xmlns:x='u'/>",
    );
    assert!(!grants(
        &["/domain/devices/disk[target/@dev='vdb']/**"],
        from,
        to
    ));
    assert_eq!(danger(from, to), Some(DangerKind::Disguise));
    // A text in CDATA is text, markup in it is none.
    assert!(!grants(
        &["/domain/devices/disk/**"],
        "<uuid>",
        "<title><![CDATA[<disk/>]]></title><uuid>"
    ));
    assert!(grants(
        &["/domain/title"],
        "<uuid>",
        "<title><![CDATA[<disk/>]]></title><uuid>"
    ));
}

#[test]
fn removing_one_of_two_that_libvirt_reads_once_changes_both() {
    // The first <driver> has no format; without it, the second one's format counts.
    let (hiding, revealed) = (
        "<driver io='native'/><driver name='qemu' type='raw'/>",
        "<driver name='qemu' type='raw'/>",
    );
    let before = DOMAIN.replacen(revealed, hiding, 1);
    assert_ne!(before, DOMAIN);
    let all = ["/domain/devices/disk/driver/**"];
    let format = "/domain/devices/disk/driver/@type";
    assert!(!granted(&all, &before, DOMAIN));
    assert!(granted(&[all[0], format], &before, DOMAIN));
    // Lists are matched by key: another disk touches no disk.
    let disk = "<disk><target dev='vdc'/></disk><hostdev>";
    assert!(grants(
        &["/domain/devices/disk[target/@dev='vdc']/**"],
        "<hostdev>",
        disk
    ));
}

#[test]
fn what_no_diff_told_is_refused() {
    let document = Document::parse(DOMAIN).unwrap();
    let by_hand = Change::new(
        "/domain/os/@x",
        ChangeKind::Inserted,
        None,
        Some("1".into()),
    );
    let all = [PathPattern::parse("/domain/**").unwrap()];
    let Permission::Refused(told) = permits(&all, &by_hand, &document, &document) else {
        panic!("granted");
    };
    assert_eq!(told.reason, Reason::NoPlace);
    // A place of other documents is no place of these.
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

/// Whether all changes are permitted, and found so within a number of steps.
fn granted_within(patterns: &[&str], before: &str, after: &str, steps: u64) -> bool {
    let parsed = patterns.iter().map(|p| PathPattern::parse(p).unwrap());
    let patterns: Vec<PathPattern> = parsed.collect();
    let (before, after) = (
        Document::parse(before).unwrap(),
        Document::parse(after).unwrap(),
    );
    let budget = Rc::new(Budget::of_steps(steps));
    let changes = domain_xml::diff_within(&before, &after, &budget);
    assert!(!changes.is_empty());
    let mut checker = Checker::within(&patterns, &before, &after, Rc::clone(&budget));
    let granted = |change| matches!(checker.permits(change), Permission::Granted { .. });
    let all = changes.iter().all(granted);
    assert_eq!(budget.exhausted(), None);
    all
}

#[test]
fn hostile_size_stays_linear() {
    let list = |value: &str| {
        let disks: String = (0..5_000)
            .map(|n| format!("<disk><target dev='v{n}'/><driver io='{value}'/></disk>"))
            .collect();
        format!("<domain><devices>{disks}</devices></domain>")
    };
    // Some ten steps for each of 15,000 elements.
    assert!(granted_within(
        &[
            "/domain/devices/disk[1]/**",
            "/domain/devices/disk[target]/driver/@io"
        ],
        &list("a"),
        &list("b"),
        150_000
    ));
    let deep = "<n>".repeat(100) + &"<m/>".repeat(20_000) + &"</n>".repeat(100);
    let deep = format!("<domain>{deep}</domain>");
    assert!(granted_within(
        &["/domain/n/**"],
        "<domain/>",
        &deep,
        100_000
    ));
    assert!(!granted_within(
        &["/domain/n/**/n"],
        "<domain/>",
        &deep,
        100_000
    ));
}
