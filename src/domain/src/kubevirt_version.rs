//! What KubeVirt's versions do differently, in one table.
//!
//! The launcher behaves as the launcher of the cluster's own version would. Everything that depends on the version is a
//! field of [`Behaviour`]; nothing else asks for the version.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A minor version of KubeVirt that this launcher can stand in for. Patch releases behave alike.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub enum KubeVirtVersion {
    /// v1.8.
    #[serde(rename = "1.8")]
    V1_8,
    /// v1.9, which is assumed where the version is unknown.
    #[default]
    #[serde(rename = "1.9")]
    V1_9,
    /// v1.10, as of August 2026, before its release.
    #[serde(rename = "1.10")]
    V1_10,
}

/// The version whose behaviour a release gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Support {
    /// The version.
    pub version: KubeVirtVersion,
    /// Whether the release is newer than every version in the table, and gets the newest one's behaviour.
    pub is_newer: bool,
}

/// A release that this launcher cannot stand in for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnsupportedRelease {
    /// The text does not begin with `v` and two numbers.
    #[error("{0:?} is no release of KubeVirt such as v1.8.4, v1.9.0 or v1.10")]
    NotARelease(String),
    /// The release is older than the oldest version in the table.
    #[error(
        "KubeVirt {0} is not supported: this launcher stands in for those of v1.8, v1.9 and v1.10"
    )]
    TooOld(String),
}

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
}

impl KubeVirtVersion {
    /// All versions, oldest first.
    pub const ALL: [Self; 3] = [Self::V1_8, Self::V1_9, Self::V1_10];

    /// The version whose behaviour a release gets: `v1.9.0`, `1.10`, or what `git describe` makes of a commit after one.
    ///
    /// # Errors
    /// [`UnsupportedRelease`] if the text is no release, or the release is older than v1.8.
    pub fn supporting(release: &str) -> Result<Support, UnsupportedRelease> {
        let numbers = release.strip_prefix('v').unwrap_or(release);
        let mut numbers = numbers.split(|letter: char| !letter.is_ascii_digit());
        let mut number = || numbers.next()?.parse::<u32>().ok();
        let (Some(major), Some(minor)) = (number(), number()) else {
            return Err(UnsupportedRelease::NotARelease(release.to_owned()));
        };
        let (version, is_newer) = match (major, minor) {
            (0, _) | (1, 0..=7) => return Err(UnsupportedRelease::TooOld(release.to_owned())),
            (1, 8) => (Self::V1_8, false),
            (1, 9) => (Self::V1_9, false),
            (1, 10) => (Self::V1_10, false),
            _ => (Self::V1_10, true),
        };
        Ok(Support { version, is_newer })
    }

    /// The minor version: 9 of v1.9.
    #[must_use]
    pub const fn minor(self) -> u64 {
        match self {
            Self::V1_8 => 8,
            Self::V1_9 => 9,
            Self::V1_10 => 10,
        }
    }

    /// What this version does.
    #[must_use]
    pub const fn behaviour(self) -> Behaviour {
        const V1_9: Behaviour = Behaviour {
            prefers_secure_boot_image: true,
            tdx_has_quote_service: true,
            migrates_reservations: true,
            gpu_by_pci_has_display: true,
            gpu_by_pci_has_ramfb: false,
            numa_distances: false,
            cid_in_local_vsock: None,
            expands_disks_by_option: false,
            kvm_missing: "kvm not present and emulation is not allowed",
            acpi_errors_in_lower_case: false,
            always_serves_migration_hook: false,
        };
        match self {
            Self::V1_8 => Behaviour {
                prefers_secure_boot_image: false,
                tdx_has_quote_service: false,
                migrates_reservations: false,
                gpu_by_pci_has_display: false,
                expands_disks_by_option: true,
                kvm_missing: "kvm not present",
                ..V1_9
            },
            Self::V1_9 => V1_9,
            Self::V1_10 => Behaviour {
                gpu_by_pci_has_ramfb: true,
                numa_distances: true,
                cid_in_local_vsock: Some(3),
                acpi_errors_in_lower_case: true,
                always_serves_migration_hook: true,
                ..V1_9
            },
        }
    }
}

impl fmt::Display for KubeVirtVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v1.{}", self.minor())
    }
}
