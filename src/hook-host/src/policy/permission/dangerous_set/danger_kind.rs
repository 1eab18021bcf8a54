//! The kinds of the dangerous set.

use std::fmt;
use std::str::FromStr;

macro_rules! kinds {
    ($($(#[doc = $doc:literal])* $kind:ident: $description:literal,)*) => {
        /// A kind of the dangerous set: why a pattern must name a node to permit its change. The operator's policy
        /// grants a kind by its name (`dangerous: [DiskFormat]`), or single paths of the kind.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum DangerKind {
            $($(#[doc = $doc])* $kind,)*
        }

        impl DangerKind {
            /// All kinds.
            pub const ALL: &'static [Self] = &[$(Self::$kind),*];

            /// Whether the guest alone acts on what is of this kind, and not the host. A grant of such an element says
            /// nothing about the files, programs and devices of the host that its content may name.
            pub(crate) fn acts_on_guest_alone(self) -> bool {
                matches!(self, Self::GuestProvisioning | Self::ConfidentialGuest)
            }

            /// The name of the kind in policies.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$kind => stringify!($kind),)*
                }
            }
        }

        impl fmt::Display for DangerKind {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self {
                    $(Self::$kind => $description,)*
                })
            }
        }
    };
}

kinds! {
    /// `qemu:commandline` and all other elements that libvirt passes to a hypervisor unchecked (`lxc:`, `xen:`,
    /// `bhyve:` too).
    Hypervisor: "goes to the hypervisor past libvirt",
    /// `<emulator>`: the program that libvirt runs.
    Emulator: "is the program that runs the machine",
    /// Loader, NVRAM, kernel, initrd, command line, device tree and ACPI tables, which QEMU reads from files of the
    /// container; the firmware that libvirt chooses, with SMM, which Secure Boot depends on; a boot from the network.
    Boot: "is what the machine boots from",
    /// What makes programs in the guest run or trust something: entries of QEMU's `fwcfg`, OEM strings, and SMBIOS
    /// values that systemd or cloud-init take for instructions.
    GuestProvisioning: "is an instruction to Ignition, systemd or cloud-init in the guest",
    /// `<launchSecurity>`: how a confidential guest is protected from its host, and what it proves to its owner.
    ConfidentialGuest: "decides how the guest is protected from its host",
    /// An interface's `<script>`, `<downscript>` or `<backend>`, vhost-user helpers, and the virtiofsd of a
    /// `<filesystem>`: programs and devices.
    Script: "is a program that libvirt runs, or a device behind an interface",
    /// `<seclabel>`.
    SecurityLabel: "is a security label",
    /// `<source>` and `<mirror>` of any device, a random or smartcard backend, and types that interpret a source
    /// as something else.
    Source: "is where a device gets its data from",
    /// Any other value that names a file, directory, socket or host device.
    HostPath: "names a file, socket or device of the host",
    /// A disk's format: with a format that has a header, a guest that writes the header chooses the backing file.
    DiskFormat: "is a disk's format, which decides whether its header is believed",
    /// Settings that decide who else may write a disk, and whether its writes and a TPM's state are kept: `shareable`,
    /// `transient`, a removed `readonly`, ignored write errors, leases, `persistent_state`.
    DiskAccess: "decides who may write a disk, and whether writes are kept",
    /// References to libvirt's secrets: `auth`, `encryption`.
    Secret: "uses a secret of libvirt",
    /// `<filesystem>`.
    Filesystem: "shares a directory with the guest",
    /// `<hostdev>`, raw I/O and SCSI commands on a disk, SGX memory, and TPM, smartcard or input devices of the host.
    HostDevice: "gives a device of the host to the guest",
    /// How an interface is attached to the pod's network, forwarded ports, the vsock's address.
    HostNetwork: "decides how the guest is attached to the host's network",
    /// A display of the host: SDL, D-Bus, X authority; and the guest's own display on an address that others can reach.
    HostDisplay: "connects to a display or bus of the host, or shows the guest's display to others",
    /// Audio servers and devices of the host.
    HostAudio: "connects to an audio server or device of the host",
    /// Memory that is shared under a name.
    SharedMemory: "shares memory with other processes of the host",
    /// Host identity that the guest sees: SMBIOS of the host.
    HostIdentity: "shows the guest the host's identity",
    /// Realtime scheduling, cgroup partitions, cache and memory bandwidth of the host.
    HostScheduling: "decides about processor time and caches of the whole host",
    /// Dumps of the guest's memory, or of what it tells its TPM, to the host's disk.
    CoreDump: "writes the guest's memory or secrets to the host's disk",
    /// An attribute with a prefix: libvirt ignores the prefix and reads the attribute as if it had none.
    Disguise: "has a prefix, and is read as if it had none",
}

/// A name that is not a kind of the dangerous set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{name:?} is neither a path that begins with /domain/ nor a kind of the dangerous set ({})",
    names()
)]
pub struct UnknownDanger {
    name: String,
}

fn names() -> String {
    let names: Vec<&str> = DangerKind::ALL.iter().map(|kind| kind.name()).collect();
    names.join(", ")
}

impl FromStr for DangerKind {
    type Err = UnknownDanger;

    fn from_str(name: &str) -> Result<Self, UnknownDanger> {
        let kind = Self::ALL.iter().find(|kind| kind.name() == name);
        kind.copied().ok_or_else(|| UnknownDanger {
            name: name.to_owned(),
        })
    }
}
