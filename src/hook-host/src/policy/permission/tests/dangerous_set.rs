//! No wildcard matches the dangerous set.

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
            assert!(!grants_edit(&[wide], from, to), "{wide} {to}");
        }
        assert_eq!(
            refusal(&["/domain/**"], from, to).reason,
            RefusalReason::Dangerous(kind),
            "{to}"
        );
        if !pattern.is_empty() {
            assert!(grants_edit(&[pattern], from, to), "{pattern} {to}");
        }
    }
    // The grant of an element includes neither a program nor a security label in it.
    let shared =
        "<filesystem><driver type='virtiofs'/><binary path='/tmp/x'/></filesystem><graphics";
    assert!(!grants_edit(
        &["/domain/devices/filesystem/**"],
        "<graphics",
        shared
    ));
    assert!(grants_edit(
        &[
            "/domain/devices/filesystem/**",
            "/domain/devices/filesystem/binary/**"
        ],
        "<graphics",
        shared
    ));
    let labelled = "<source file='/a'><seclabel relabel='no'/></source>";
    assert!(!grants_edit(
        &["/domain/devices/disk/source/**"],
        "<source file='/a'/>",
        labelled
    ));
    assert!(grants_edit(
        &["/domain/devices/disk/source/seclabel/**"],
        "<source file='/a'/>",
        labelled
    ));
    assert_eq!(danger_kind("<os>", "<os firmware='efi'>"), None);
}

#[test]
fn swapped_names_foreign_prefixes_and_cdata_do_not_hide_a_change() {
    // Two disks swap their names, which changes their sources.
    let swapped = DOMAIN
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
        &swapped
    ));
    // The element has another namespace now, so it is not the granted one.
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
    // libvirt ignores the prefix and would read another target, which no wildcard permits.
    let (from, to) = (
        "<target dev='vdb'/>",
        "<target x:dev='vda' dev='vdb' xmlns:x='u'/>",
    );
    assert!(!grants_edit(
        &["/domain/devices/disk[target/@dev='vdb']/**"],
        from,
        to
    ));
    assert_eq!(danger_kind(from, to), Some(DangerKind::Disguise));
    // Markup in CDATA is text.
    assert!(!grants_edit(
        &["/domain/devices/disk/**"],
        "<uuid>",
        "<title><![CDATA[<disk/>]]></title><uuid>"
    ));
    assert!(grants_edit(
        &["/domain/title"],
        "<uuid>",
        "<title><![CDATA[<disk/>]]></title><uuid>"
    ));
}
