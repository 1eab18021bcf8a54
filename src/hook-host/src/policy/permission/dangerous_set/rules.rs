//! A rule of the dangerous set, and constructors for the tables of rules.

use super::DangerKind::*;
use super::{
    DangerKind, dumps_core, has_several_options, instructs_guest, is_host_audio,
    is_host_character_device, is_host_display, is_host_smbios, is_host_tpm, is_keymap_file,
    is_not_file_or_block, is_not_loopback, is_not_smbios, is_out_of_process, is_timezone_path,
    leads_out_of_directory,
};

/// A rule for an element or attribute.
pub(super) struct Rule {
    /// The parent of the element; `None` for any.
    pub(super) parent: Option<&'static str>,
    /// The element; `None` for any.
    pub(super) element: Option<&'static str>,
    /// The attribute; `None` for a rule about the element.
    pub(super) attribute: Option<&'static str>,
    pub(super) when: When,
    pub(super) kind: DangerKind,
}

/// Which changes are dangerous.
#[derive(Clone, Copy)]
pub(super) enum When {
    /// Every change.
    Always,
    /// Additions with, and changes to, a value for which the function is true: an attribute's value, or an element's
    /// text.
    AddedOrChangedTo(fn(&str) -> bool),
    /// Changes to a value for which the function is true, of an element that exists in both documents. A new element
    /// needs the grant of its source instead.
    ChangedTo(fn(&str) -> bool),
    /// Removals, unless the parent is removed too.
    Removed,
    /// Every change of an element that has this attribute, with a value for which the function is true, before or after
    /// the change.
    With(&'static str, fn(&str) -> bool),
    /// Additions of the element. In an element that exists in both documents, the changed node has a rule of its own.
    Added,
}

pub(super) const fn element_rule(
    parent: Option<&'static str>,
    element: &'static str,
    when: When,
    kind: DangerKind,
) -> Rule {
    Rule {
        parent,
        element: Some(element),
        attribute: None,
        when,
        kind,
    }
}

pub(super) const fn attribute_rule(
    parent: Option<&'static str>,
    element: Option<&'static str>,
    attribute: &'static str,
    when: When,
    kind: DangerKind,
) -> Rule {
    Rule {
        parent,
        element,
        attribute: Some(attribute),
        when,
        kind,
    }
}

/// Every change of an element, in any parent.
pub(super) const fn element_anywhere(name: &'static str, kind: DangerKind) -> Rule {
    element_rule(None, name, When::Always, kind)
}

/// Every change of an element in this parent.
pub(super) const fn element_in(parent: &'static str, name: &'static str, kind: DangerKind) -> Rule {
    element_rule(Some(parent), name, When::Always, kind)
}

/// Every change of an attribute of an element.
pub(super) const fn attribute_of(
    element: &'static str,
    name: &'static str,
    kind: DangerKind,
) -> Rule {
    attribute_rule(None, Some(element), name, When::Always, kind)
}

/// An attribute of an element, if it gets a value for which the function is true.
pub(super) const fn attribute_set_to(
    element: &'static str,
    name: &'static str,
    is_dangerous: fn(&str) -> bool,
    kind: DangerKind,
) -> Rule {
    attribute_rule(
        None,
        Some(element),
        name,
        When::AddedOrChangedTo(is_dangerous),
        kind,
    )
}

/// Every change of an attribute of any element.
pub(super) const fn attribute_anywhere(name: &'static str, kind: DangerKind) -> Rule {
    attribute_rule(None, None, name, When::Always, kind)
}

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
/// Of several rules for an element, the first that applies decides.
pub(super) const ELEMENT_RULES: &[Rule] = &[
    element_anywhere("emulator", Emulator),
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
    element_in("os", "firmware", Boot),
    element_in("features", "smm", Boot),
    element_in("interface", "boot", Boot),
    element_anywhere("launchSecurity", ConfidentialGuest),
    // Programs in the guest act on all strings of this table that have a name that they know.
    element_in("sysinfo", "oemStrings", GuestProvisioning),
    element_rule(
        Some("domain"),
        "sysinfo",
        When::With("type", is_not_smbios),
        GuestProvisioning,
    ),
    element_in("disk", "shareable", DiskAccess),
    element_in("disk", "transient", DiskAccess),
    element_rule(Some("disk"), "readonly", When::Removed, DiskAccess),
    element_in("disk", "backenddomain", DiskAccess),
    // Capabilities of a container; only LXC reads them.
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
    // libvirt runs this program, first to ask virtiofsd for its capabilities.
    element_in("filesystem", "binary", Script),
    // The entry of a `fwcfg` becomes an option of QEMU's -fw_cfg, which libvirt does not escape. Entries of SMBIOS are
    // a level deeper.
    element_rule(
        Some("sysinfo"),
        "entry",
        When::AddedOrChangedTo(has_several_options),
        Hypervisor,
    ),
    element_rule(
        None,
        "entry",
        When::AddedOrChangedTo(instructs_guest),
        GuestProvisioning,
    ),
    // libvirt writes the name into QEMU's -cpu as it is.
    element_rule(
        Some("cpu"),
        "model",
        When::AddedOrChangedTo(has_several_options),
        Hypervisor,
    ),
    // A new vsock is dangerous without a `cid` too: libvirt then takes any free address.
    element_rule(Some("devices"), "vsock", When::Added, HostNetwork),
];
