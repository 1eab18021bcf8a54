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
            GuestProvisioning,
            "</domain>",
            "<sysinfo type='fwcfg'><entry name='opt/x'>1</entry></sysinfo></domain>",
            "/domain/sysinfo[@type='fwcfg']/**",
        ),
        (
            GuestProvisioning,
            "</domain>",
            "<sysinfo type='smbios'><oemStrings><entry>1</entry></oemStrings></sysinfo></domain>",
            "",
        ),
        (
            ConfidentialGuest,
            "</domain>",
            "<launchSecurity type='sev'><policy>1</policy></launchSecurity></domain>",
            "/domain/launchSecurity/**",
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
}

#[test]
fn the_grant_of_an_instruction_to_the_guest_includes_no_file_of_the_host() {
    let fwcfg = |entry: &str| format!("<sysinfo type='fwcfg'>{entry}</sysinfo></domain>");
    let plain = fwcfg("<entry name='opt/x'>1</entry>");
    let file = fwcfg("<entry name='opt/x' file='/etc/shadow'/>");
    let options = fwcfg("<entry name='opt/x'>1,file=/etc/shadow</entry>");
    let pattern = "/domain/sysinfo[@type='fwcfg']/**";
    assert!(grants_edit(&[pattern], "</domain>", &plain));
    assert!(!grants_edit(&["/domain/**"], "</domain>", &plain));
    for (edit, more, kind, path) in [
        (
            &file,
            "/domain/sysinfo/entry/@file",
            DangerKind::HostPath,
            "/@file",
        ),
        (
            &options,
            "/domain/sysinfo/entry/**",
            DangerKind::Hypervisor,
            "/entry",
        ),
    ] {
        // The refusal is about the host's part, whether or not the guest's part is granted.
        for patterns in [&["/domain/**"][..], &["/domain/**", pattern]] {
            let refused = refusal(patterns, "</domain>", edit);
            assert_eq!(refused.reason, RefusalReason::Dangerous(kind), "{edit}");
            assert!(refused.path.ends_with(path), "{}", refused.path);
        }
        assert!(
            !grants_edit(&[more, "/domain/**"], "</domain>", edit),
            "{edit}"
        );
        assert!(grants_edit(&[more, pattern], "</domain>", edit), "{edit}");
    }
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

/// libvirt joins the texts of all elements in the entry, so that the entry has another value without one of them.
#[test]
fn a_removal_inside_of_an_element_with_dangerous_values_is_found_as_it_is_refused() {
    let before = "<domain><entry><a><b>1</b></a></entry></domain>";
    let after = "<domain><entry><a/></entry></domain>";
    let [before, after] = [before, after].map(|xml| Document::parse(xml).unwrap());
    let all = paths(&["/domain/**"]);
    let mut checker = Checker::new(&all, &before, &after);
    for change in diff(&before, &after) {
        let permission = checker.permits(&change);
        let Permission::Refused(Refusal {
            reason: RefusalReason::Dangerous(kind),
            ..
        }) = permission
        else {
            panic!("{permission:?}");
        };
        let found: Vec<DangerKind> = checker
            .dangers(&change)
            .iter()
            .map(|danger| danger.kind)
            .collect();
        assert_eq!(found, [kind], "{change:?}");
    }
}
