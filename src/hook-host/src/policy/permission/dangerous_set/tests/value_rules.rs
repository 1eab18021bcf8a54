//! Rules that apply to some values only.

use super::*;

/// For each rule that applies to some values: the path, a harmless value, and a dangerous one.
const VALUES: &[(&str, &str, &str)] = &[
    ("/domain/@type", "kvm", "qemu"),
    ("/domain/on_crash", "destroy", "coredump-restart"),
    ("/domain/devices/disk/@type", "block", "dir"),
    ("/domain/devices/disk/backingStore/@type", "file", "network"),
    ("/domain/devices/disk/@device", "cdrom", "lun"),
    (
        "/domain/devices/tpm/backend/@type",
        "emulator",
        "passthrough",
    ),
    ("/domain/devices/smartcard/@mode", "passthrough", "host"),
    ("/domain/devices/input/@type", "tablet", "evdev"),
    ("/domain/devices/serial/@type", "pty", "file"),
    ("/domain/devices/parallel/@type", "null", "dev"),
    ("/domain/devices/console/@type", "pty", "tcp"),
    ("/domain/devices/channel/@type", "unix", "pipe"),
    ("/domain/devices/redirdev/@type", "spicevmc", "tcp"),
    ("/domain/devices/smartcard/@type", "spicevmc", "unix"),
    ("/domain/devices/graphics/@type", "vnc", "dbus"),
    ("/domain/devices/graphics/@keymap", "de", "etc/passwd"),
    (
        "/domain/devices/graphics/@listen",
        "::1",
        "::1]:7,vnc=unix:/x,vnc=[::1",
    ),
    (
        "/domain/devices/graphics/listen/@address",
        "127.0.0.1",
        "0.0.0.0,reverse=on",
    ),
    ("/domain/devices/graphics/listen/@type", "none", "network"),
    (
        "/domain/devices/channel/target/@name",
        "org.qemu.guest_agent.0",
        "../../launcher-sock",
    ),
    ("/domain/devices/vsock/cid/@auto", "no", "yes"),
    ("/domain/os/boot/@dev", "hd", "network"),
    ("/domain/os/type/@machine", "q35", "q35,accel=tcg"),
    ("/domain/cpu/model", "EPYC", "EPYC,kvm=off"),
    ("/domain/cpu/feature/@name", "vmx", "vmx=on,-smap"),
    (
        "/domain/devices/disk/driver/@error_policy",
        "stop",
        "ignore",
    ),
    ("/domain/devices/memory/@model", "dimm", "sgx-epc"),
    (
        "/domain/sysinfo/baseBoard/entry",
        "odd=even",
        "io.systemd.credential:a=b",
    ),
    ("/domain/sysinfo/entry", "a=b", "x,file=/etc/shadow"),
    (
        "/domain/sysinfo/entry/@name",
        "opt/x",
        "opt/x,file=/etc/shadow",
    ),
    ("/domain/devices/video/driver/@name", "qemu", "vhostuser"),
    ("/domain/devices/audio/@type", "none", "pulseaudio"),
    ("/domain/devices/graphics/gl/@enable", "no", "yes"),
    ("/domain/os/smbios/@mode", "sysinfo", "host"),
    ("/domain/devices/watchdog/@action", "reset", "dump"),
    ("/domain/memory/@dumpCore", "off", "on"),
    ("/domain/clock/@timezone", "Europe/Berlin", ":/etc/shadow"),
];

/// The paths whose rule does not apply to new elements, which need the grant of their source.
const NOT_IF_NEW: &[&str] = &[
    "/domain/devices/disk/@type",
    "/domain/devices/disk/backingStore/@type",
];

#[test]
fn every_value_rule_distinguishes_dangerous_from_harmless_values() {
    for (path, harmless, dangerous) in VALUES {
        let none = match path.contains("/vsock/") {
            // A new vsock is dangerous itself.
            true => "<domain><devices><vsock/></devices></domain>",
            false => "<domain/>",
        };
        let (good, bad) = (domain(path, harmless), domain(path, dangerous));
        let expected = kind_of(path);
        assert_eq!(danger(none, &good), None, "{path}");
        let if_new = expected.filter(|_| !NOT_IF_NEW.contains(path));
        assert_eq!(danger(none, &bad), if_new, "{path}");
        assert_eq!(danger(&good, &bad), expected, "{path}");
        // A change from a dangerous to a harmless value is not dangerous.
        assert_eq!(danger(&bad, &good), None, "{path}");
    }
    let value_rules =
        rules().filter(|rule| matches!(rule.when, When::AddedOrChangedTo(_) | When::ChangedTo(_)));
    assert_eq!(value_rules.count(), VALUES.len());
}
