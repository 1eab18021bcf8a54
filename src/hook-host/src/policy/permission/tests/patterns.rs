//! Which changes patterns and their predicates permit.

use super::*;

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
        let rejection = refusal(&[not], from, to);
        assert!(
            matches!(rejection.reason, RefusalReason::NoPattern { .. }),
            "{not}"
        );
        assert_eq!(
            rejection.suggested_pattern.as_deref(),
            Some(queues.as_str())
        );
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
    let rejection = refusal(&["/domain/os/smbios", "/domain/os/@firmware"], from, to);
    assert_eq!(rejection.path, "/domain/os/smbios/@mode");
    assert_eq!(
        rejection.reason,
        RefusalReason::NoPattern { nearest: Some(0) }
    );
    assert_eq!(
        rejection.suggested_pattern.as_deref(),
        Some("/domain/os/smbios/**")
    );
    let rejection = refusal(&["/domain/os/@firmware"], from, to);
    assert_eq!(
        (
            rejection.path.as_str(),
            rejection.suggested_pattern.as_deref()
        ),
        ("/domain/os/smbios", Some("/domain/os/smbios/**"))
    );
    // The narrowest that permits all of it, in one step.
    let rejection = refusal(&["/domain/os/smbios/**"], "<os>", "<os firmware='efi'>");
    assert_eq!(
        rejection.suggested_pattern.as_deref(),
        Some("/domain/os/@firmware")
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
    // A change of the identity itself needs permission under the old and the new identity.
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
    // A suggested pattern is checked before it is returned.
    let rejection = refusal(&[], "dev='vda'", "dev='vdc'");
    assert_eq!(
        rejection.suggested_pattern.as_deref(),
        Some("/domain/devices/disk/target/@dev")
    );
}

#[test]
fn a_shared_identity_is_refused_under_predicates() {
    let twin = "<disk device='disk'><target dev='vda'/><alias name='ua-z'/></disk><hostdev>";
    let all = format!("{VDA}/**");
    let rejection = refusal(&[&all], "<hostdev>", twin);
    assert_eq!(rejection.reason, RefusalReason::Ambiguous { pattern: 0 });
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
