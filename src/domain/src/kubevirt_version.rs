//! What KubeVirt's versions do differently, in one table.
//!
//! The launcher behaves as the launcher of the cluster's own version would. Everything that depends on the version is a
//! field of [`Behaviour`]; nothing else asks for the version.

pub use kubevirt_api::kubevirt_version::{KubeVirtVersion, Support, UnsupportedRelease};

/// Which versions of KubeVirt do what. A field that is true for one version alone is named after what that version does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools)]
pub struct Behaviour {
    /// Without Secure Boot, `OVMF_CODE.secboot.fd` is preferred to `OVMF_CODE.fd`.
    pub(crate) prefers_secure_boot_image: bool,
    /// TDX: the guest can get quotes from the service of the annotation `kubevirt.io/qgs-socket-path`, and libvirt's
    /// `secure` attribute is never set.
    pub(crate) tdx_has_quote_service: bool,
    /// Disks with persistent reservations can migrate.
    pub(crate) migrates_reservations: bool,
    /// A GPU that is passed through as a PCI device can have a display.
    pub(crate) gpu_by_pci_has_display: bool,
    /// Such a display has a frame buffer before the guest's driver loads, unless the VMI says otherwise.
    pub(crate) gpu_by_pci_has_ramfb: bool,
    /// Guest NUMA cells have the distances of the host's nodes.
    pub(crate) numa_distances: bool,
    /// Memory is a memfd only if the architecture has NUMA, which a memfd needs.
    pub(crate) has_memfd_with_numa_only: bool,
    /// The block sizes that a VMI gives to a disk are compared with the architecture's maximum.
    pub(crate) limits_custom_block_sizes: bool,
    /// The CID of a vsock device on a host whose network namespaces have vsock ports of their own.
    pub(crate) cid_in_local_vsock: Option<u32>,
    /// Disks grow with their claims only if the cluster's configuration says so, and the domain names those that do.
    pub(crate) expands_disks_by_option: bool,
    /// The error of a VMI on a node without KVM.
    pub(crate) kvm_missing: &'static str,
    /// Errors about ACPI tables begin with a small letter.
    pub(crate) acpi_errors_in_lower_case: bool,
    /// Domains that arrive by migration are always edited, without the flag `--libvirt-hook-server-and-client`.
    pub always_serves_migration_hook: bool,
    /// The disk of an image volume may be alone at the image's root, as in an artifact, instead of in `/disk`.
    pub finds_disk_at_image_root: bool,
    /// The guest cannot eject what is connected to a root port, except interfaces and disks that can be hotplugged.
    pub(crate) fixes_devices_at_root_ports: bool,
    /// The deletion of a domain is told when libvirt says so, not as soon as libvirt does not find the domain.
    pub deletes_domain_by_event: bool,
}

impl Behaviour {
    /// What a version does.
    #[must_use]
    pub const fn of(version: KubeVirtVersion) -> Self {
        const V1_9: Behaviour = Behaviour {
            prefers_secure_boot_image: true,
            tdx_has_quote_service: true,
            migrates_reservations: true,
            gpu_by_pci_has_display: true,
            gpu_by_pci_has_ramfb: false,
            numa_distances: false,
            has_memfd_with_numa_only: false,
            limits_custom_block_sizes: true,
            cid_in_local_vsock: None,
            expands_disks_by_option: false,
            kvm_missing: "kvm not present and emulation is not allowed",
            acpi_errors_in_lower_case: false,
            always_serves_migration_hook: false,
            finds_disk_at_image_root: false,
            fixes_devices_at_root_ports: false,
            deletes_domain_by_event: false,
        };
        match version {
            KubeVirtVersion::V1_8 => Behaviour {
                prefers_secure_boot_image: false,
                tdx_has_quote_service: false,
                migrates_reservations: false,
                gpu_by_pci_has_display: false,
                limits_custom_block_sizes: false,
                expands_disks_by_option: true,
                kvm_missing: "kvm not present",
                ..V1_9
            },
            KubeVirtVersion::V1_9 => V1_9,
            KubeVirtVersion::V1_10 => Behaviour {
                gpu_by_pci_has_ramfb: true,
                numa_distances: true,
                has_memfd_with_numa_only: true,
                cid_in_local_vsock: Some(3),
                acpi_errors_in_lower_case: true,
                always_serves_migration_hook: true,
                finds_disk_at_image_root: true,
                fixes_devices_at_root_ports: true,
                deletes_domain_by_event: true,
                ..V1_9
            },
        }
    }
}
