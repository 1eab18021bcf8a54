//! New elements whose missing attributes have dangerous defaults in libvirt.

use super::*;

/// libvirt connects an interface without a type to QEMU's own network, and gives a vsock without a CID any free CID.
#[test]
fn interfaces_and_vsocks_with_dangerous_defaults_must_be_granted_by_name() {
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
                !grants_edit(&[wide, interface], "<graphics", &to),
                "{wide} {new}"
            );
        }
        let refused = refusal(&["/domain/**", interface], "<graphics", &to);
        assert_eq!(refused.reason, RefusalReason::Dangerous(kind), "{new}");
        assert!(grants_edit(patterns, "<graphics", &to), "{new}");
    }
    // Elements of both documents are not new, so their defaults need no grant.
    let with_devices = |model: &str| {
        let devices = format!("<interface>{model}</interface><vsock>{model}</vsock><graphics");
        DOMAIN.replacen("<graphics", &devices, 1)
    };
    let (before, after) = (with_devices(""), with_devices("<model type='virtio'/>"));
    assert!(granted(&["/domain/devices/**"], &before, &after));
    assert!(granted(&["/domain/devices/**"], &before, DOMAIN));
}
