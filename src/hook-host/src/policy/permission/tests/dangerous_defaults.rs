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

/// The domain with these displays.
fn with_displays(displays: &str) -> String {
    let (start, end) = DOMAIN.split_once("<graphics type='vnc'/>").unwrap();
    format!("{start}{displays}{end}")
}

/// qemu.conf of the image has `vnc_listen = "0.0.0.0"`: VNC without an address shows the guest to everyone who reaches
/// the pod, whether a hook leaves the address out or takes it away.
#[test]
fn a_display_that_loses_its_address_or_socket_must_be_granted_by_name() {
    const SOCKET: &str = "<graphics type='vnc'><listen type='socket' socket='/s'/></graphics>";
    const LOOPBACK: &str = "<graphics type='vnc' listen='127.0.0.1'><listen type='address' address='127.0.0.1'/></graphics>";
    const SPICE: &str = "<graphics type='spice' port='5900'/>";
    let listen = "/domain/devices/graphics/@listen";
    let address = "/domain/devices/graphics/listen/@address";
    for (name, before, after, patterns) in [
        ("a new display", "", "<graphics type='vnc'/>", &[listen][..]),
        (
            "with a port",
            "",
            "<graphics type='vnc' port='5900' autoport='no'/>",
            &[listen],
        ),
        (
            "with a websocket",
            "",
            "<graphics type='vnc' websocket='5700'/>",
            &[listen],
        ),
        ("without a type", "", "<graphics/>", &[listen]),
        (
            "an element of another namespace",
            "",
            "<x:graphics xmlns:x='u' type='vnc'/>",
            &["/domain/devices/x:graphics/@listen"],
        ),
        (
            "a new listen without an address",
            "",
            "<graphics type='vnc'><listen type='address'/></graphics>",
            &[listen, address],
        ),
        (
            "a new listen beside the socket",
            SOCKET,
            "<graphics type='vnc'><listen type='socket' socket='/s'/><listen type='address'/></graphics>",
            &[address],
        ),
        (
            "the socket's listen is removed",
            SOCKET,
            "<graphics type='vnc'/>",
            &[listen, "/domain/devices/graphics/listen/@socket"],
        ),
        (
            "the socket's listen listens on an address now",
            "<graphics type='vnc'><listen type='socket'/></graphics>",
            "<graphics type='vnc'><listen type='address'/></graphics>",
            &[listen, address],
        ),
        (
            "the first of two listens is removed",
            "<graphics type='vnc'><listen type='none'/><listen type='address'/></graphics>",
            "<graphics type='vnc'><listen type='address'/></graphics>",
            &[listen],
        ),
        (
            "both addresses are removed",
            LOOPBACK,
            "<graphics type='vnc'><listen type='address'/></graphics>",
            &[listen, address],
        ),
        (
            "the attribute is removed",
            "<graphics type='vnc' listen='127.0.0.1'/>",
            "<graphics type='vnc'/>",
            &[listen],
        ),
        (
            "the attribute is removed, and a listen has no address",
            "<graphics type='vnc' listen='127.0.0.1'><listen type='address'/></graphics>",
            "<graphics type='vnc'><listen type='address'/></graphics>",
            &[listen],
        ),
        (
            "the socket's attribute is removed",
            "<graphics type='vnc' socket='/s'/>",
            "<graphics type='vnc'/>",
            &[listen, "/domain/devices/graphics/@socket"],
        ),
        (
            "Spice becomes VNC",
            SPICE,
            "<graphics type='vnc' port='5900'/>",
            &[listen],
        ),
    ] {
        let (before, after) = (with_displays(before), with_displays(after));
        let changes = |from: &str, to: &str| {
            let (from, to) = (Document::parse(from).unwrap(), Document::parse(to).unwrap());
            let changes = diff(&from, &to);
            let dangers = changes.iter().flat_map(|c| dangers(c, &from, &to));
            dangers.map(|danger| danger.kind).collect::<Vec<_>>()
        };
        assert!(
            changes(&before, &after).contains(&DangerKind::HostDisplay),
            "{name}"
        );
        let wide = [
            "/domain/**",
            "/domain/devices/*/@*",
            "/domain/devices/x:graphics/**",
        ];
        assert!(!granted(&wide, &before, &after), "{name}");
        assert!(
            granted(&[&wide, patterns].concat(), &before, &after),
            "{name}"
        );
        for (index, pattern) in patterns.iter().enumerate() {
            let mut others = patterns.to_vec();
            others.remove(index);
            assert!(
                !granted(&[&wide, others.as_slice()].concat(), &before, &after),
                "{name}: without {pattern}"
            );
        }
        // Away from the default is no danger of this kind.
        assert!(
            !changes(&after, &before).contains(&DangerKind::HostDisplay),
            "{name}"
        );
    }
}

#[test]
fn displays_with_an_address_or_socket_of_their_own_need_no_grant_by_name() {
    let open = "<graphics type='vnc' port='5900'/>";
    for (name, before, after) in [
        ("Spice", "", "<graphics type='spice' port='5900'/>"),
        (
            "no listening",
            "",
            "<graphics type='vnc'><listen type='none'/></graphics>",
        ),
        (
            "libvirt's own socket",
            "",
            "<graphics type='vnc'><listen type='socket'/></graphics>",
        ),
        ("loopback", "", "<graphics type='vnc' listen='::1'/>"),
        (
            "loopback in a listen",
            "",
            "<graphics type='vnc'><listen type='address' address='127.0.0.1'/></graphics>",
        ),
        // The hook has not opened this display.
        (
            "another setting of an open display",
            open,
            "<graphics type='vnc' port='5901'/>",
        ),
        ("an open display is removed", open, ""),
        (
            "an open display is closed",
            open,
            "<graphics type='vnc' port='5900' listen='127.0.0.1'/>",
        ),
    ] {
        let (before, after) = (with_displays(before), with_displays(after));
        assert!(granted(&["/domain/**"], &before, &after), "{name}");
    }
    // A display that does not listen is dangerous for its type alone.
    let sdl = with_displays("<graphics type='sdl'/>");
    let by_type = ["/domain/**", "/domain/devices/graphics/@type"];
    assert!(granted(&by_type, &with_displays(""), &sdl));
}
