//! The rules of the dangerous set for elements.

use super::DangerKind::*;
use super::dangerous_values::{dumps_core, has_several_options, instructs_guest, is_not_smbios};
use super::rule::{Rule, When, element_anywhere, element_in, element_rule};

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
