//! The dangerous set is matched by no wildcard.

use super::*;

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
            "<video><driver name='vhostuser'/></video><graphics",
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
        assert_eq!(danger_kind(from, to), Some(kind), "{to}");
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
            RefusalReason::Dangerous(kind),
            "{to}"
        );
        if !pattern.is_empty() {
            assert!(grants(&[pattern], from, to), "{pattern} {to}");
        }
    }
    // Neither a program nor a label inside what is granted is granted with it.
    let shared =
        "<filesystem><driver type='virtiofs'/><binary path='/tmp/x'/></filesystem><graphics";
    assert!(!grants(
        &["/domain/devices/filesystem/**"],
        "<graphics",
        shared
    ));
    assert!(grants(
        &[
            "/domain/devices/filesystem/**",
            "/domain/devices/filesystem/binary/**"
        ],
        "<graphics",
        shared
    ));
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
    assert_eq!(danger_kind("<os>", "<os firmware='efi'>"), None);
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
    assert_eq!(danger_kind(from, to), Some(DangerKind::Disguise));
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

/// libvirt gives an interface without a type QEMU's own network, and a vsock without a CID one that is free.
#[test]
fn what_libvirt_connects_by_default_is_granted_by_name() {
    let (interface, vsock) = ("/domain/devices/interface", "/domain/devices/vsock");
    let user = format!("{interface}/@type");
    for (new, patterns) in [
        ("<interface type='user'/>", &[interface, &user][..]),
        ("<interface/>", &[interface, &user]),
        (
            "<interface><mac address='52:54:00:00:00:01'/></interface>",
            &["/domain/devices/interface/**", &user],
        ),
        (
            "<x:interface xmlns:x='u'/>",
            &[
                "/domain/devices/x:interface",
                "/domain/devices/x:interface/@type",
            ],
        ),
        ("<vsock/>", &[vsock]),
        ("<vsock><cid/></vsock>", &["/domain/devices/vsock/**"]),
        (
            "<vsock><cid auto='yes'/></vsock>",
            &["/domain/devices/vsock/**"],
        ),
    ] {
        let to = format!("{new}<graphics");
        let kind = DangerKind::HostNetwork;
        assert_eq!(danger_kind("<graphics", &to), Some(kind), "{new}");
        for wide in ["/domain/**", "/domain/devices/*/@*", "/domain/devices/*"] {
            assert!(
                !grants(&[wide, interface], "<graphics", &to),
                "{wide} {new}"
            );
        }
        let refused = refusal(&["/domain/**", interface], "<graphics", &to);
        assert_eq!(refused.reason, RefusalReason::Dangerous(kind), "{new}");
        assert!(grants(patterns, "<graphics", &to), "{new}");
    }
    // The one that is there keeps what it has.
    let plain = |model: &str| {
        let devices = format!("<interface>{model}</interface><vsock>{model}</vsock><graphics");
        DOMAIN.replacen("<graphics", &devices, 1)
    };
    let (before, after) = (plain(""), plain("<model type='virtio'/>"));
    assert!(granted(&["/domain/devices/**"], &before, &after));
    assert!(granted(&["/domain/devices/**"], &before, DOMAIN));
}
