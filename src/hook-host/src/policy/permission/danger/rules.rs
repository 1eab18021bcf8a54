//! The rules of the dangerous set, as a table: where, which values, which class.
//!
//! `reviewed.txt` lists what libvirt's schema has besides, and a test compares both with the schema.

use super::DangerKind::*;
use super::rule::{Rule, When, any, anywhere, attribute, becomes, element, inside, of};

/// The first rule that applies counts.
pub(super) const RULES: &[Rule] = &[
    anywhere("emulator", Emulator),
    anywhere("seclabel", SecurityLabel),
    anywhere("filesystem", Filesystem),
    anywhere("hostdev", HostDevice),
    anywhere("source", Source),
    anywhere("mirror", Source),
    anywhere("bootloader", Boot),
    anywhere("bootloader_args", Boot),
    anywhere("lease", DiskAccess),
    inside("rng", "backend", Source),
    inside("smartcard", "certificate", Source),
    inside("smartcard", "database", Source),
    inside("interface", "script", Script),
    inside("interface", "downscript", Script),
    inside("interface", "backend", Script),
    inside("interface", "guest", HostNetwork),
    inside("interface", "portForward", HostNetwork),
    inside("interface", "backenddomain", HostNetwork),
    inside("os", "loader", Boot),
    inside("os", "nvram", Boot),
    inside("os", "varstore", Boot),
    inside("os", "shim", Boot),
    inside("os", "kernel", Boot),
    inside("os", "initrd", Boot),
    inside("os", "cmdline", Boot),
    inside("os", "dtb", Boot),
    inside("os", "acpi", Boot),
    inside("os", "init", Boot),
    inside("os", "initarg", Boot),
    inside("os", "initenv", Boot),
    inside("os", "initdir", Boot),
    inside("os", "inituser", Boot),
    inside("os", "initgroup", Boot),
    inside("os", "root", Boot),
    inside("disk", "shareable", DiskAccess),
    inside("disk", "transient", DiskAccess),
    element(Some("disk"), "readonly", When::Removed, DiskAccess),
    inside("disk", "backenddomain", DiskAccess),
    // Capabilities of a container, which only LXC reads.
    inside("features", "capabilities", Hypervisor),
    inside("pstore", "path", HostPath),
    inside("device", "path", HostPath),
    inside("resource", "partition", HostScheduling),
    inside("resource", "fibrechannel", HostScheduling),
    inside("cputune", "vcpusched", HostScheduling),
    inside("cputune", "iothreadsched", HostScheduling),
    inside("cputune", "emulatorsched", HostScheduling),
    inside("cputune", "cachetune", HostScheduling),
    inside("cputune", "memorytune", HostScheduling),
    anywhere("auth", Secret),
    anywhere("encryption", Secret),
    element(
        None,
        "on_crash",
        When::AddedOrChangedTo(dumps_core),
        CoreDump,
    ),
    any("file", HostPath),
    any("path", HostPath),
    any("dir", HostPath),
    any("socket", HostPath),
    any("logFile", HostPath),
    any("template", HostPath),
    any("rendernode", HostPath),
    any("evdev", HostPath),
    attribute(
        Some("disk"),
        Some("driver"),
        "type",
        When::Always,
        DiskFormat,
    ),
    attribute(
        Some("backingStore"),
        Some("format"),
        "type",
        When::Always,
        DiskFormat,
    ),
    attribute(
        None,
        Some("disk"),
        "type",
        When::ChangedTo(is_special_disk),
        Source,
    ),
    attribute(
        None,
        Some("backingStore"),
        "type",
        When::ChangedTo(is_special_disk),
        Source,
    ),
    becomes("disk", "device", |device| device == "lun", HostDevice),
    of("disk", "rawio", HostDevice),
    of("disk", "sgio", HostDevice),
    attribute(
        Some("tpm"),
        Some("backend"),
        "type",
        When::AddedOrChangedTo(is_real_tpm),
        HostDevice,
    ),
    // In mode `passthrough` the card is the client's; every other mode reads the host's.
    becomes(
        "smartcard",
        "mode",
        |mode| mode != "passthrough",
        HostDevice,
    ),
    becomes(
        "input",
        "type",
        |kind| matches!(kind, "passthrough" | "evdev"),
        HostDevice,
    ),
    becomes("serial", "type", is_host_character_device, Source),
    becomes("parallel", "type", is_host_character_device, Source),
    becomes("console", "type", is_host_character_device, Source),
    // libvirt names the socket of a channel itself.
    becomes(
        "channel",
        "type",
        |kind| kind != "unix" && is_host_character_device(kind),
        Source,
    ),
    becomes("redirdev", "type", is_host_character_device, Source),
    becomes("smartcard", "type", is_host_character_device, Source),
    of("serial", "tty", HostPath),
    of("parallel", "tty", HostPath),
    of("console", "tty", HostPath),
    of("interface", "type", HostNetwork),
    attribute(
        Some("interface"),
        Some("target"),
        "dev",
        When::Always,
        HostNetwork,
    ),
    attribute(
        Some("interface"),
        Some("target"),
        "managed",
        When::Always,
        HostNetwork,
    ),
    attribute(
        Some("vsock"),
        Some("cid"),
        "address",
        When::Always,
        HostNetwork,
    ),
    of("graphics", "xauth", HostDisplay),
    of("graphics", "display", HostDisplay),
    of("graphics", "address", HostDisplay),
    of("graphics", "p2p", HostDisplay),
    becomes("graphics", "type", is_host_display, HostDisplay),
    becomes("graphics", "keymap", is_path, HostPath),
    attribute(
        Some("graphics"),
        Some("gl"),
        "enable",
        When::AddedOrChangedTo(|on| on == "yes"),
        HostDevice,
    ),
    attribute(
        Some("video"),
        Some("driver"),
        "name",
        When::AddedOrChangedTo(is_helper),
        Script,
    ),
    of("audio", "serverName", HostAudio),
    of("audio", "runtimeDir", HostAudio),
    becomes("audio", "type", is_host_audio, HostAudio),
    attribute(Some("audio"), Some("input"), "dev", When::Always, HostAudio),
    attribute(
        Some("audio"),
        Some("input"),
        "name",
        When::Always,
        HostAudio,
    ),
    attribute(
        Some("audio"),
        Some("input"),
        "serverName",
        When::Always,
        HostAudio,
    ),
    attribute(
        Some("audio"),
        Some("input"),
        "connectPorts",
        When::Always,
        HostAudio,
    ),
    attribute(
        Some("audio"),
        Some("output"),
        "dev",
        When::Always,
        HostAudio,
    ),
    attribute(
        Some("audio"),
        Some("output"),
        "name",
        When::Always,
        HostAudio,
    ),
    attribute(
        Some("audio"),
        Some("output"),
        "serverName",
        When::Always,
        HostAudio,
    ),
    attribute(
        Some("audio"),
        Some("output"),
        "connectPorts",
        When::Always,
        HostAudio,
    ),
    of("shmem", "name", SharedMemory),
    of("shmem", "role", SharedMemory),
    attribute(
        Some("os"),
        Some("smbios"),
        "mode",
        When::AddedOrChangedTo(is_host),
        HostIdentity,
    ),
    becomes("watchdog", "action", |action| action == "dump", CoreDump),
    becomes("clock", "timezone", is_path, HostPath),
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

/// Whether a name is a path: keymaps and time zones are looked up in a directory of the host.
fn is_path(name: &str) -> bool {
    name.starts_with(['/', ':']) || name.contains("..") || name.contains('\\')
}
