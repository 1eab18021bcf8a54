//! Rules that apply to some values only.

use super::*;

/// A rule that applies to some values.
struct ValueRule {
    path: &'static str,
    harmless: &'static str,
    dangerous: &'static str,
    /// The domain before the node is new.
    before: &'static str,
    /// An attribute without which the node's element is dangerous itself.
    beside: &'static str,
    /// Whether the value is dangerous in a new element too, which may need the grant of its source instead.
    if_new: bool,
}

impl ValueRule {
    const fn new(path: &'static str, harmless: &'static str, dangerous: &'static str) -> Self {
        Self {
            path,
            harmless,
            dangerous,
            before: "<domain/>",
            beside: "",
            if_new: true,
        }
    }

    /// In a display with an address of its own.
    const fn of_display(
        path: &'static str,
        harmless: &'static str,
        dangerous: &'static str,
    ) -> Self {
        Self {
            beside: " listen='::1'",
            ..Self::new(path, harmless, dangerous)
        }
    }

    const fn of_old_element(
        path: &'static str,
        harmless: &'static str,
        dangerous: &'static str,
    ) -> Self {
        Self {
            if_new: false,
            ..Self::new(path, harmless, dangerous)
        }
    }

    fn domain(&self, value: &str) -> String {
        domain(self.path, value).replacen("<graphics", &format!("<graphics{}", self.beside), 1)
    }
}

const VALUE_RULES: &[ValueRule] = &[
    ValueRule::new("/domain/@type", "kvm", "qemu"),
    ValueRule::new("/domain/on_crash", "destroy", "coredump-restart"),
    ValueRule::of_old_element("/domain/devices/disk/@type", "block", "dir"),
    ValueRule::of_old_element("/domain/devices/disk/backingStore/@type", "file", "network"),
    ValueRule::new("/domain/devices/disk/@device", "cdrom", "lun"),
    ValueRule::new(
        "/domain/devices/tpm/backend/@type",
        "emulator",
        "passthrough",
    ),
    ValueRule::new("/domain/devices/smartcard/@mode", "passthrough", "host"),
    ValueRule::new("/domain/devices/input/@type", "tablet", "evdev"),
    ValueRule::new("/domain/devices/serial/@type", "pty", "file"),
    ValueRule::new("/domain/devices/parallel/@type", "null", "dev"),
    ValueRule::new("/domain/devices/console/@type", "pty", "tcp"),
    ValueRule::new("/domain/devices/channel/@type", "unix", "pipe"),
    ValueRule::new("/domain/devices/redirdev/@type", "spicevmc", "tcp"),
    ValueRule::new("/domain/devices/smartcard/@type", "spicevmc", "unix"),
    ValueRule::of_display("/domain/devices/graphics/@type", "vnc", "dbus"),
    ValueRule::of_display("/domain/devices/graphics/@keymap", "de", "etc/passwd"),
    ValueRule::new(
        "/domain/devices/graphics/@listen",
        "::1",
        "::1]:7,vnc=unix:/x,vnc=[::1",
    ),
    ValueRule::new(
        "/domain/devices/graphics/listen/@address",
        "127.0.0.1",
        "0.0.0.0,reverse=on",
    ),
    ValueRule::new("/domain/devices/graphics/listen/@type", "none", "network"),
    ValueRule::new(
        "/domain/devices/channel/target/@name",
        "org.qemu.guest_agent.0",
        "../../launcher-sock",
    ),
    ValueRule {
        // A new vsock is dangerous itself.
        before: "<domain><devices><vsock/></devices></domain>",
        ..ValueRule::new("/domain/devices/vsock/cid/@auto", "no", "yes")
    },
    ValueRule::new("/domain/os/boot/@dev", "hd", "network"),
    ValueRule::new("/domain/os/type/@machine", "q35", "q35,accel=tcg"),
    ValueRule::new("/domain/cpu/model", "EPYC", "EPYC,kvm=off"),
    ValueRule::new("/domain/cpu/feature/@name", "vmx", "vmx=on,-smap"),
    ValueRule::new(
        "/domain/devices/disk/driver/@error_policy",
        "stop",
        "ignore",
    ),
    ValueRule::new(
        "/domain/devices/disk/driver/@rerror_policy",
        "report",
        "ignore",
    ),
    ValueRule::new("/domain/devices/memory/@model", "dimm", "sgx-epc"),
    ValueRule::new(
        "/domain/sysinfo/baseBoard/entry",
        "odd=even",
        "io.systemd.credential:a=b",
    ),
    ValueRule::new("/domain/sysinfo/entry", "a=b", "x,file=/etc/shadow"),
    ValueRule::new(
        "/domain/sysinfo/entry/@name",
        "opt/x",
        "opt/x,file=/etc/shadow",
    ),
    ValueRule::new("/domain/devices/video/driver/@name", "qemu", "vhostuser"),
    ValueRule::new("/domain/devices/audio/@type", "none", "pulseaudio"),
    ValueRule::of_display("/domain/devices/graphics/gl/@enable", "no", "yes"),
    ValueRule::new("/domain/os/smbios/@mode", "sysinfo", "host"),
    ValueRule::new("/domain/devices/watchdog/@action", "reset", "dump"),
    ValueRule::new("/domain/memory/@dumpCore", "off", "on"),
    ValueRule::new("/domain/clock/@timezone", "Europe/Berlin", ":/etc/shadow"),
];

#[test]
fn every_value_rule_distinguishes_dangerous_from_harmless_values() {
    for rule in VALUE_RULES {
        let path = rule.path;
        let (good, bad) = (rule.domain(rule.harmless), rule.domain(rule.dangerous));
        let expected = kind_of(path);
        assert_eq!(danger(rule.before, &good), None, "{path}");
        let if_new = expected.filter(|_| rule.if_new);
        assert_eq!(danger(rule.before, &bad), if_new, "{path}");
        assert_eq!(danger(&good, &bad), expected, "{path}");
        // A change from a dangerous to a harmless value is not dangerous.
        assert_eq!(danger(&bad, &good), None, "{path}");
    }
    let paths: BTreeSet<&str> = VALUE_RULES.iter().map(|rule| rule.path).collect();
    assert_eq!(paths.len(), VALUE_RULES.len());
    let value_rules =
        rules().filter(|rule| matches!(rule.when, When::AddedOrChangedTo(_) | When::ChangedTo(_)));
    assert_eq!(value_rules.count(), VALUE_RULES.len());
}
