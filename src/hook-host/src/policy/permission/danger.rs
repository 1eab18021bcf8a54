//! The dangerous set, which no wildcard matches, and the reserved nodes, which nothing grants.
//!
//! QEMU reads these as files to open, programs to run or devices to take, with the rights of its
//! container. Names are compared without their prefixes: libvirt reads attributes whatever their
//! namespace (libxml2's `xmlGetProp` does), so elements are held to the same rule.

use std::fmt;

use domain_xml::Element;

/// Why a pattern must name a node to permit its change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum DangerKind {
    /// `qemu:commandline` and whatever else goes to a hypervisor past libvirt (`lxc:`, `xen:`,
    /// `bhyve:` as well).
    Hypervisor,
    /// `<emulator>`: the program that libvirt runs.
    Emulator,
    /// Loader, NVRAM, kernel, initrd, command line, device tree, ACPI tables: what the machine
    /// boots, read from files of the container.
    Boot,
    /// An interface's `<script>`, `<downscript>` or `<backend>`: programs and devices.
    Script,
    /// `<seclabel>`.
    SecurityLabel,
    /// `<source>` and `<mirror>` of any device, a random or smartcard backend.
    Source,
    /// Any other attribute that names a file, directory, socket or host device.
    HostPath,
    /// A disk's format: a guest that writes its own image header picks its backing file.
    DiskFormat,
    /// `<filesystem>`.
    Filesystem,
    /// `<hostdev>`, and raw I/O on a disk.
    HostDevice,
    /// An attribute with a prefix: libvirt knows none, and reads it as the one without.
    Disguise,
}

/// Nodes that no hook may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reserved {
    /// `/domain/name`
    Name,
    /// `/domain/uuid`
    Uuid,
    /// KubeVirt's element in `/domain/metadata`.
    Metadata,
}

impl fmt::Display for DangerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DangerKind::Hypervisor => "goes to the hypervisor past libvirt",
            DangerKind::Emulator => "is the program that runs the machine",
            DangerKind::Boot => "is what the machine boots from",
            DangerKind::Script => "is a program or device behind an interface",
            DangerKind::SecurityLabel => "is a security label",
            DangerKind::Source => "is where a device gets its data from",
            DangerKind::HostPath => "names a file, socket or device of the host",
            DangerKind::DiskFormat => {
                "is a disk's format, which decides whether its header is believed"
            }
            DangerKind::Filesystem => "shares a directory with the guest",
            DangerKind::HostDevice => "gives a device of the host to the guest",
            DangerKind::Disguise => "has a prefix, and is read as if it had none",
        })
    }
}

impl fmt::Display for Reserved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reserved::Name => "the domain's name",
            Reserved::Uuid => "the domain's UUID",
            Reserved::Metadata => "KubeVirt's metadata",
        })
    }
}

const HYPERVISORS: &[&str] = &["qemu", "lxc", "xen", "bhyve"];

const BOOT: &[&str] = &[
    "loader",
    "nvram",
    "varstore",
    "shim",
    "kernel",
    "initrd",
    "cmdline",
    "dtb",
    "acpi",
    "init",
    "initarg",
    "initenv",
    "initdir",
    "inituser",
    "initgroup",
];

/// Attributes that name a file, directory, socket or device wherever libvirt knows them.
const HOST_PATHS: &[&str] = &[
    "file",
    "path",
    "dir",
    "socket",
    "logFile",
    "template",
    "rendernode",
    "evdev",
];

/// `("qemu", "arg")` of `qemu:arg`; the prefix is empty if there is none.
fn split(name: &str) -> (&str, &str) {
    name.split_once(':').unwrap_or(("", name))
}

fn local(name: &str) -> &str {
    split(name).1
}

/// The danger of an element and its content.
pub(super) fn of_element(element: &Element, parent: Option<&Element>) -> Option<DangerKind> {
    let within = parent.map_or("", |parent| local(parent.name()));
    if HYPERVISORS.contains(&split(element.canonical_name()).0) {
        return Some(DangerKind::Hypervisor);
    }
    match (within, local(element.name())) {
        (_, "emulator") => Some(DangerKind::Emulator),
        (_, "seclabel") => Some(DangerKind::SecurityLabel),
        (_, "filesystem") => Some(DangerKind::Filesystem),
        (_, "hostdev") => Some(DangerKind::HostDevice),
        (_, "source" | "mirror") => Some(DangerKind::Source),
        ("rng", "backend") | ("smartcard", "certificate" | "database") => Some(DangerKind::Source),
        ("interface", "script" | "downscript" | "backend") => Some(DangerKind::Script),
        (_, "bootloader" | "bootloader_args") => Some(DangerKind::Boot),
        ("os", boot) if BOOT.contains(&boot) => Some(DangerKind::Boot),
        _ => None,
    }
}

/// The danger of an attribute whose element is not dangerous.
pub(super) fn of_attribute(
    attribute: &str,
    element: &Element,
    parent: Option<&Element>,
) -> Option<DangerKind> {
    let within = parent.map_or("", |parent| local(parent.name()));
    match (within, local(element.name()), local(attribute)) {
        (_, _, path) if HOST_PATHS.contains(&path) => Some(DangerKind::HostPath),
        ("audio", "input" | "output", "dev") => Some(DangerKind::HostPath),
        ("disk", "driver", "type") | ("backingStore", "format", "type") => {
            Some(DangerKind::DiskFormat)
        }
        (_, "disk", "rawio" | "sgio") => Some(DangerKind::HostDevice),
        _ if !split(attribute).0.is_empty() => Some(DangerKind::Disguise),
        _ => None,
    }
}

/// Whether the element at this depth below the root is reserved.
pub(super) fn reserved(
    depth: usize,
    element: &Element,
    parent: Option<&Element>,
) -> Option<Reserved> {
    let within = parent.map_or("", |parent| local(parent.name()));
    match (depth, within, local(element.name())) {
        (1, _, "name") => Some(Reserved::Name),
        (1, _, "uuid") => Some(Reserved::Uuid),
        (2, "metadata", "kubevirt") => Some(Reserved::Metadata),
        _ => None,
    }
}

/// Whether a pattern must name an element of this kind inside of `inside`. A grant of a dangerous
/// element includes its content, except for security labels.
pub(super) fn needs_its_name(kind: DangerKind, inside: Option<DangerKind>) -> bool {
    match inside {
        None => true,
        Some(inside) => kind == DangerKind::SecurityLabel && inside != kind,
    }
}
