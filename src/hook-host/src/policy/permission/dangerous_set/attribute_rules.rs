//! The rules of the dangerous set for attributes.

use super::DangerKind::*;
use super::dangerous_values::{
    has_several_options, is_host_audio, is_host_character_device, is_host_display, is_host_smbios,
    is_host_tpm, is_keymap_file, is_not_file_or_block, is_not_loopback, is_out_of_process,
    is_timezone_path, leads_out_of_directory,
};
use super::rule::{Rule, When, attribute_anywhere, attribute_of, attribute_rule, attribute_set_to};

/// Of several rules for an attribute, the first that applies decides.
pub(super) const ATTRIBUTE_RULES: &[Rule] = &[
    // Without KVM the guest runs in QEMU's emulator; QEMU does not treat bugs of the emulator as vulnerabilities.
    attribute_set_to("domain", "type", |kind| kind != "kvm", Emulator),
    // The name of an entry of a `fwcfg` becomes an option of QEMU's -fw_cfg, which libvirt does not escape.
    attribute_rule(
        Some("sysinfo"),
        Some("entry"),
        "name",
        When::AddedOrChangedTo(has_several_options),
        Hypervisor,
    ),
    // libvirt writes these names into QEMU's -machine and -cpu as they are.
    attribute_rule(
        Some("os"),
        Some("type"),
        "machine",
        When::AddedOrChangedTo(has_several_options),
        Hypervisor,
    ),
    attribute_rule(
        Some("cpu"),
        Some("feature"),
        "name",
        When::AddedOrChangedTo(has_several_options),
        Hypervisor,
    ),
    // libvirt chooses the loader, and with it whether Secure Boot is enforced.
    attribute_of("os", "firmware", Boot),
    // The guest runs what the first server in the pod's network that answers gives it.
    attribute_rule(
        Some("os"),
        Some("boot"),
        "dev",
        When::AddedOrChangedTo(|device| device == "network"),
        Boot,
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
        When::ChangedTo(is_not_file_or_block),
        Source,
    ),
    attribute_rule(
        None,
        Some("backingStore"),
        "type",
        When::ChangedTo(is_not_file_or_block),
        Source,
    ),
    // QEMU tells the guest that data was written which was not.
    attribute_rule(
        Some("disk"),
        Some("driver"),
        "error_policy",
        When::AddedOrChangedTo(|policy| policy == "ignore"),
        DiskAccess,
    ),
    // QEMU then gives the guest data that it has not read.
    attribute_rule(
        Some("disk"),
        Some("driver"),
        "rerror_policy",
        When::AddedOrChangedTo(|policy| policy == "ignore"),
        DiskAccess,
    ),
    attribute_set_to("disk", "device", |device| device == "lun", HostDevice),
    attribute_of("disk", "rawio", HostDevice),
    attribute_of("disk", "sgio", HostDevice),
    attribute_rule(
        Some("tpm"),
        Some("backend"),
        "type",
        When::AddedOrChangedTo(is_host_tpm),
        HostDevice,
    ),
    // Without it libvirt deletes the TPM's state at the VM's end, and the guest loses what only the TPM can decrypt.
    attribute_rule(
        Some("tpm"),
        Some("backend"),
        "persistent_state",
        When::Always,
        DiskAccess,
    ),
    // swtpm then writes what the guest and its TPM exchange into its log.
    attribute_rule(
        Some("tpm"),
        Some("backend"),
        "debug",
        When::Always,
        CoreDump,
    ),
    // swtpm reads the profile from a file of this name.
    attribute_rule(
        Some("backend"),
        Some("profile"),
        "source",
        When::Always,
        HostPath,
    ),
    // QEMU takes SGX memory from a device of the host.
    attribute_rule(
        Some("devices"),
        Some("memory"),
        "model",
        When::AddedOrChangedTo(|model| model == "sgx-epc"),
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
    // The path of a channel's socket is libvirt's own directory and the target's name.
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
        When::AddedOrChangedTo(leads_out_of_directory),
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
    // libvirt then replaces the address by any free one.
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
    // Whoever reaches the display needs no password. Both addresses become the first part of QEMU's -vnc and -spice,
    // which libvirt does not escape.
    attribute_set_to("graphics", "listen", is_not_loopback, HostDisplay),
    attribute_rule(
        Some("graphics"),
        Some("listen"),
        "address",
        When::AddedOrChangedTo(is_not_loopback),
        HostDisplay,
    ),
    // libvirt takes the address of that network.
    attribute_rule(
        Some("graphics"),
        Some("listen"),
        "type",
        When::AddedOrChangedTo(|kind| kind == "network"),
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
        When::AddedOrChangedTo(is_out_of_process),
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
        When::AddedOrChangedTo(is_host_smbios),
        HostIdentity,
    ),
    attribute_set_to("watchdog", "action", |action| action == "dump", CoreDump),
    // KubeVirt starts QEMU without the guest's memory in core files; libvirt does not limit the size of core files.
    attribute_rule(
        Some("domain"),
        Some("memory"),
        "dumpCore",
        When::AddedOrChangedTo(|on| on != "off"),
        CoreDump,
    ),
    attribute_set_to("clock", "timezone", is_timezone_path, HostPath),
];
