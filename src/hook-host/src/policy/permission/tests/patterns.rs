//! The changes that patterns and their predicates permit.

use super::*;

#[test]
fn a_pattern_permits_what_it_selects() {
    let queues = format!("{VDA}/driver/@queues");
    let (from, to) = (
        "name='qemu' type='raw'/><source file='/a'",
        "name='qemu' type='raw' queues='4'/><source file='/a'",
    );
    assert!(grants_edit(&[&queues], from, to));
    assert!(grants_edit(&[&format!("{VDA}/**")], from, to));
    assert!(grants_edit(&[&format!("{VDA}/driver/@*")], from, to));
    assert!(grants_edit(&["devices/disk/driver/@queues"], from, to));
    assert!(grants_edit(&["/domain/devices/*/driver/**"], from, to));
    for unrelated in [
        "/domain/devices/disk/driver",
        "/domain/devices/disk[target/@dev='vdb']/**",
        "/domain/devices",
        "/other/**",
    ] {
        let refused = refusal(&[unrelated], from, to);
        assert!(
            matches!(refused.reason, RefusalReason::NoPattern { .. }),
            "{unrelated}"
        );
        assert_eq!(refused.suggested_pattern.as_deref(), Some(queues.as_str()));
    }
    let both = permissions(&["/x", &queues], DOMAIN, &edit(from, to));
    assert_eq!(both, [Permission::Granted { by: vec![1] }]);
}

#[test]
fn an_element_with_content_needs_a_pattern_for_all_of_it() {
    let (from, to) = (
        "<os>",
        "<os other='efi'><smbios mode='sysinfo'><x/></smbios>",
    );
    assert!(grants_edit(&["/domain/os/**"], from, to));
    assert!(grants_edit(
        &["/domain/os/smbios/**", "/domain/os/@other"],
        from,
        to
    ));
    assert!(grants_edit(
        &[
            "/domain/os/smbios",
            "/domain/os/*/@mode",
            "/domain/os/@*",
            "/domain/os/smbios/x"
        ],
        from,
        to
    ));
    let refused = refusal(&["/domain/os/smbios", "/domain/os/@other"], from, to);
    assert_eq!(refused.path, "/domain/os/smbios/@mode");
    assert_eq!(
        refused.reason,
        RefusalReason::NoPattern { nearest: Some(0) }
    );
    assert_eq!(
        refused.suggested_pattern.as_deref(),
        Some("/domain/os/smbios/**")
    );
    let refused = refusal(&["/domain/os/@other"], from, to);
    assert_eq!(
        (refused.path.as_str(), refused.suggested_pattern.as_deref()),
        ("/domain/os/smbios", Some("/domain/os/smbios/**"))
    );
    // The suggested pattern is the narrowest that permits the whole change.
    let refused = refusal(&["/domain/os/smbios/**"], "<os>", "<os other='efi'>");
    assert_eq!(
        refused.suggested_pattern.as_deref(),
        Some("/domain/os/@other")
    );
    // A removed element needs the same patterns.
    let with_content = edit(from, to);
    assert!(granted(&["/domain/os/**"], &with_content, DOMAIN));
    assert!(!granted(
        &["/domain/os/smbios", "/domain/os/@other"],
        &with_content,
        DOMAIN
    ));
}

#[test]
fn predicates_must_hold_in_the_documents_that_have_the_element() {
    let disk = |more: &str| format!("<disk><target dev='vdc'/>{more}</disk><hostdev>");
    assert!(grants_edit(
        &["/domain/devices/disk[target/@dev='vdc']/**"],
        "<hostdev>",
        &disk("")
    ));
    assert!(!grants_edit(
        &["/domain/devices/disk[target/@dev='vdd']/**"],
        "<hostdev>",
        &disk("")
    ));
    assert!(granted(
        &["/domain/devices/disk[target/@dev='vdc']/**"],
        &edit("<hostdev>", &disk("")),
        DOMAIN
    ));
    // A change of the identity itself needs permission under the old and the new identity.
    let all = format!("{VDA}/**");
    assert!(!grants_edit(&[&all], "dev='vda'", "dev='vdc'"));
    assert!(!grants_edit(
        &[&all.replace("vda", "vdc")],
        "dev='vda'",
        "dev='vdc'"
    ));
    assert!(!grants_edit(
        &[&all],
        "<target dev='vdb'/>",
        "<target dev='vdb'/><target dev='vda'/>"
    ));
    assert!(!grants_edit(&[&all], "<target dev='vda'/>", ""));
    assert!(grants_edit(
        &["/domain/devices/disk[alias/@name='ua-a']/target/@dev"],
        "dev='vda'",
        "dev='vdc'"
    ));
    assert!(grants_edit(
        &["/domain/devices/disk[1]/target/@dev"],
        "dev='vda'",
        "dev='vdc'"
    ));
    assert!(!grants_edit(
        &["/domain/devices/disk[2]/target/@dev"],
        "dev='vda'",
        "dev='vdc'"
    ));
    // A suggested pattern is checked before it is returned.
    let refused = refusal(&[], "dev='vda'", "dev='vdc'");
    assert_eq!(
        refused.suggested_pattern.as_deref(),
        Some("/domain/devices/disk/target/@dev")
    );
}

#[test]
fn a_shared_identity_is_refused_under_predicates() {
    let same_target = "<disk device='disk'><target dev='vda'/><alias name='ua-z'/></disk><hostdev>";
    let all = format!("{VDA}/**");
    let refused = refusal(&[&all], "<hostdev>", same_target);
    assert_eq!(refused.reason, RefusalReason::Ambiguous { pattern: 0 });
    let two_disks = edit("<hostdev>", same_target);
    let cached = two_disks.replacen("name='qemu' ", "name='qemu' cache='none' ", 1);
    for pattern in [
        all.as_str(),
        "/domain/devices/disk[@device='disk']/driver/@cache",
        "/domain/devices/disk[alias/@name='ua-a']/driver/@cache",
    ] {
        assert!(!granted(&[pattern], &two_disks, &cached), "{pattern}");
        assert!(
            pattern == all || grants_edit(&[pattern], "name='qemu' ", "name='qemu' cache='none' ")
        );
    }
    assert!(granted(
        &["/domain/devices/disk/driver/@cache"],
        &two_disks,
        &cached
    ));
}
