//! The rules of the dangerous set, as a table: where, which values, which class.
//!
//! `reviewed_schema_names.txt` lists what libvirt's schema has besides, and a test compares both with the schema.

use std::net::Ipv6Addr;

use super::DangerKind::*;
use super::rule::{
    DangerousDefault, Rule, When, attribute_anywhere, attribute_of, attribute_rule,
    attribute_set_to, element_anywhere, element_in, element_rule,
};

/// The first rule that applies counts.
pub(super) const RULES: &[Rule] = &[
    element_anywhere("emulator", Emulator),
    // Without KVM the guest runs in QEMU's emulator, whose faults QEMU does not count as vulnerabilities.
    attribute_set_to("domain", "type", |kind| kind != "kvm", Emulator),
    element_anywhere("seclabel", SecurityLabel),
    element_anywhere("filesystem", Filesystem),
    element_anywhere("hostdev", HostDevice),
    element_anywhere("source", Source),
    element_anywhere("mirror", Source),
    element_anywhere("bootloader", Boot),
    element_anywhere("bootloader_args", Boot),
    element_anywhere("lease", DiskAccess),
    element_in("rng", "backend", Source),
    element_in("smartcard", "certificate", Source),
    element_in("smartcard", "database", Source),
    element_in("interface", "script", Script),
    element_in("interface", "downscript", Script),
    element_in("interface", "backend", Script),
    element_in("interface", "guest", HostNetwork),
    element_in("interface", "portForward", HostNetwork),
    element_in("interface", "backenddomain", HostNetwork),
    element_in("os", "loader", Boot),
    element_in("os", "nvram", Boot),
    element_in("os", "varstore", Boot),
    element_in("os", "shim", Boot),
    element_in("os", "kernel", Boot),
    element_in("os", "initrd", Boot),
    element_in("os", "cmdline", Boot),
    element_in("os", "dtb", Boot),
    element_in("os", "acpi", Boot),
    element_in("os", "init", Boot),
    element_in("os", "initarg", Boot),
    element_in("os", "initenv", Boot),
    element_in("os", "initdir", Boot),
    element_in("os", "inituser", Boot),
    element_in("os", "initgroup", Boot),
    element_in("os", "root", Boot),
    element_in("disk", "shareable", DiskAccess),
    element_in("disk", "transient", DiskAccess),
    element_rule(Some("disk"), "readonly", When::Removed, DiskAccess),
    element_in("disk", "backenddomain", DiskAccess),
    // Capabilities of a container, which only LXC reads.
    element_in("features", "capabilities", Hypervisor),
    element_in("pstore", "path", HostPath),
    element_in("device", "path", HostPath),
    element_in("resource", "partition", HostScheduling),
    element_in("resource", "fibrechannel", HostScheduling),
    element_in("cputune", "vcpusched", HostScheduling),
    element_in("cputune", "iothreadsched", HostScheduling),
    element_in("cputune", "emulatorsched", HostScheduling),
    element_in("cputune", "cachetune", HostScheduling),
    element_in("cputune", "memorytune", HostScheduling),
    element_anywhere("auth", Secret),
    element_anywhere("encryption", Secret),
    element_rule(
        None,
        "on_crash",
        When::AddedOrChangedTo(dumps_core),
        CoreDump,
    ),
    // libvirt runs it; it asks virtiofsd for its capabilities before anything else.
    element_in("filesystem", "binary", Script),
    // These two become options of QEMU's -fw_cfg, which libvirt does not escape. Entries of SMBIOS are a level deeper.
    element_rule(
        Some("sysinfo"),
        "entry",
        When::AddedOrChangedTo(has_another_option),
        Hypervisor,
    ),
    attribute_rule(
        Some("sysinfo"),
        Some("entry"),
        "name",
        When::AddedOrChangedTo(has_another_option),
        Hypervisor,
    ),
    attribute_anywhere("file", HostPath),
    attribute_anywhere("path", HostPath),
    attribute_anywhere("dir", HostPath),
    attribute_anywhere("socket", HostPath),
    attribute_anywhere("logFile", HostPath),
    attribute_anywhere("template", HostPath),
    attribute_anywhere("rendernode", HostPath),
    attribute_anywhere("evdev", HostPath),
    attribute_rule(
        Some("disk"),
        Some("driver"),
        "type",
        When::Always,
        DiskFormat,
    ),
    attribute_rule(
        Some("backingStore"),
        Some("format"),
        "type",
        When::Always,
        DiskFormat,
    ),
    attribute_rule(
        None,
        Some("disk"),
        "type",
        When::ChangedTo(is_special_disk),
        Source,
    ),
    attribute_rule(
        None,
        Some("backingStore"),
        "type",
        When::ChangedTo(is_special_disk),
        Source,
    ),
    attribute_set_to("disk", "device", |device| device == "lun", HostDevice),
    attribute_of("disk", "rawio", HostDevice),
    attribute_of("disk", "sgio", HostDevice),
    attribute_rule(
        Some("tpm"),
        Some("backend"),
        "type",
        When::AddedOrChangedTo(is_real_tpm),
        HostDevice,
    ),
    // In mode `passthrough` the card is the client's; every other mode reads the host's.
    attribute_set_to(
        "smartcard",
        "mode",
        |mode| mode != "passthrough",
        HostDevice,
    ),
    attribute_set_to(
        "input",
        "type",
        |kind| matches!(kind, "passthrough" | "evdev"),
        HostDevice,
    ),
    attribute_set_to("serial", "type", is_host_character_device, Source),
    attribute_set_to("parallel", "type", is_host_character_device, Source),
    attribute_set_to("console", "type", is_host_character_device, Source),
    // libvirt makes the path of a channel's socket: a directory of its own, and the target's name.
    attribute_set_to(
        "channel",
        "type",
        |kind| kind != "unix" && is_host_character_device(kind),
        Source,
    ),
    attribute_rule(
        Some("channel"),
        Some("target"),
        "name",
        When::AddedOrChangedTo(leaves_its_directory),
        HostPath,
    ),
    attribute_set_to("redirdev", "type", is_host_character_device, Source),
    attribute_set_to("smartcard", "type", is_host_character_device, Source),
    attribute_of("serial", "tty", HostPath),
    attribute_of("parallel", "tty", HostPath),
    attribute_of("console", "tty", HostPath),
    attribute_of("interface", "type", HostNetwork),
    attribute_rule(
        Some("interface"),
        Some("target"),
        "dev",
        When::Always,
        HostNetwork,
    ),
    attribute_rule(
        Some("interface"),
        Some("target"),
        "managed",
        When::Always,
        HostNetwork,
    ),
    attribute_rule(
        Some("vsock"),
        Some("cid"),
        "address",
        When::Always,
        HostNetwork,
    ),
    // Without a `cid` libvirt takes any address that is free.
    element_rule(Some("devices"), "vsock", When::Added, HostNetwork),
    // Instead of the address that was given.
    attribute_rule(
        Some("vsock"),
        Some("cid"),
        "auto",
        When::AddedOrChangedTo(|auto| auto != "no"),
        HostNetwork,
    ),
    attribute_of("graphics", "xauth", HostDisplay),
    attribute_of("graphics", "display", HostDisplay),
    attribute_of("graphics", "address", HostDisplay),
    attribute_of("graphics", "p2p", HostDisplay),
    attribute_set_to("graphics", "type", is_host_display, HostDisplay),
    attribute_set_to("graphics", "keymap", is_keymap_file, HostPath),
    // These two become the begin of QEMU's -vnc and -spice, which libvirt does not escape.
    attribute_set_to("graphics", "listen", is_no_address, HostDisplay),
    attribute_rule(
        Some("graphics"),
        Some("listen"),
        "address",
        When::AddedOrChangedTo(is_no_address),
        HostDisplay,
    ),
    attribute_rule(
        Some("graphics"),
        Some("gl"),
        "enable",
        When::AddedOrChangedTo(|on| on == "yes"),
        HostDevice,
    ),
    attribute_rule(
        Some("video"),
        Some("driver"),
        "name",
        When::AddedOrChangedTo(is_helper),
        Script,
    ),
    attribute_of("audio", "serverName", HostAudio),
    attribute_of("audio", "runtimeDir", HostAudio),
    attribute_set_to("audio", "type", is_host_audio, HostAudio),
    attribute_rule(Some("audio"), Some("input"), "dev", When::Always, HostAudio),
    attribute_rule(
        Some("audio"),
        Some("input"),
        "name",
        When::Always,
        HostAudio,
    ),
    attribute_rule(
        Some("audio"),
        Some("input"),
        "serverName",
        When::Always,
        HostAudio,
    ),
    attribute_rule(
        Some("audio"),
        Some("input"),
        "connectPorts",
        When::Always,
        HostAudio,
    ),
    attribute_rule(
        Some("audio"),
        Some("output"),
        "dev",
        When::Always,
        HostAudio,
    ),
    attribute_rule(
        Some("audio"),
        Some("output"),
        "name",
        When::Always,
        HostAudio,
    ),
    attribute_rule(
        Some("audio"),
        Some("output"),
        "serverName",
        When::Always,
        HostAudio,
    ),
    attribute_rule(
        Some("audio"),
        Some("output"),
        "connectPorts",
        When::Always,
        HostAudio,
    ),
    attribute_of("shmem", "name", SharedMemory),
    attribute_of("shmem", "role", SharedMemory),
    attribute_rule(
        Some("os"),
        Some("smbios"),
        "mode",
        When::AddedOrChangedTo(is_host),
        HostIdentity,
    ),
    attribute_set_to("watchdog", "action", |action| action == "dump", CoreDump),
    // KubeVirt starts QEMU without; libvirt does not limit the size of its core files.
    attribute_rule(
        Some("domain"),
        Some("memory"),
        "dumpCore",
        When::AddedOrChangedTo(|on| on != "off"),
        CoreDump,
    ),
    attribute_set_to("clock", "timezone", is_path, HostPath),
];

/// Each attribute has a rule of [`RULES`].
pub(super) const DANGEROUS_DEFAULTS: &[DangerousDefault] = &[
    // A network of QEMU's own (`user`), through which the guest reaches whatever the launcher's container does.
    DangerousDefault {
        element: "interface",
        attribute: "type",
    },
];

fn dumps_core(action: &str) -> bool {
    action.trim().starts_with("coredump")
}

fn is_special_disk(kind: &str) -> bool {
    !matches!(kind, "file" | "block")
}

fn is_real_tpm(kind: &str) -> bool {
    kind != "emulator"
}

/// Whether a character device of this type is more than a buffer or terminal of its own.
fn is_host_character_device(kind: &str) -> bool {
    !matches!(
        kind,
        "null" | "pty" | "vc" | "spicevmc" | "spiceport" | "qemu-vdagent"
    )
}

fn is_host_display(kind: &str) -> bool {
    !matches!(kind, "vnc" | "spice")
}

fn is_host_audio(kind: &str) -> bool {
    !matches!(kind, "none" | "spice")
}

fn is_helper(driver: &str) -> bool {
    driver != "qemu"
}

fn is_host(mode: &str) -> bool {
    !matches!(mode, "emulate" | "sysinfo")
}

/// Whether a time zone is a path instead of a name below the host's directory of time zones.
fn is_path(name: &str) -> bool {
    name.starts_with(['/', ':']) || name.contains("..") || name.contains('\\')
}

/// Whether a keymap is a path: QEMU tries the name as it is, in its working directory, before its directory of keymaps.
fn is_keymap_file(name: &str) -> bool {
    name.contains('/') || is_path(name)
}

fn leaves_its_directory(name: &str) -> bool {
    name.contains('/') || matches!(name, "." | "..")
}

/// Whether a value is not the last of QEMU's comma-separated options.
fn has_another_option(value: &str) -> bool {
    value.contains(',')
}

/// Whether a value is more than a host name or an IP address. `unix:0` is the path of a socket to QEMU.
fn is_no_address(value: &str) -> bool {
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let is_host_name = value.chars().all(is_name) && value != "unix";
    !is_host_name && value.parse::<Ipv6Addr>().is_err()
}
