//! The error of preparing the resources of a boot.

use domain::cloud_init::{CloudInitError, HookOutputError};
use domain::driver_modes::DriverModeError;
use domain::required_files::RequiredFileError;
use domain::secret_source::SecretError;

use crate::blocking::NoAnswer;
use crate::vm_boot::cloud_init_image::CloudInitImageError;
use crate::vm_boot::disk_images::DiskImageError;
use crate::vm_boot::host_facts::IommuFdError;
use crate::vm_boot::image_volumes::ImageVolumeError;
use crate::vm_boot::network::NetworkError;

/// A resource of a boot could not be prepared.
#[derive(Debug, thiserror::Error)]
pub enum BootResourceError {
    /// The files that the VMI's disks need could not be determined.
    #[error(transparent)]
    RequiredFile(#[from] RequiredFileError),
    /// A disk image could not be made.
    #[error(transparent)]
    DiskImage(#[from] DiskImageError),
    /// A disk's cache mode could not be chosen.
    #[error(transparent)]
    DriverMode(#[from] DriverModeError),
    /// An image volume does not contain the expected image.
    #[error(transparent)]
    ImageVolume(#[from] ImageVolumeError),
    /// The guest's network could not be prepared.
    #[error("preparing the pod network failed: {0}")]
    Network(#[from] NetworkError),
    /// The cloud-init data are invalid or cannot be read.
    #[error(transparent)]
    CloudInit(#[from] CloudInitError),
    /// The cloud-init data are invalid after the hooks.
    #[error("cloud-init data after the hooks: {0}")]
    HookedCloudInit(#[from] HookOutputError),
    /// A secret with access credentials is not mounted.
    #[error("access credentials: {0}")]
    AccessCredentials(SecretError),
    /// The cloud-init image could not be written.
    #[error(transparent)]
    CloudInitImage(#[from] CloudInitImageError),
    /// libvirt's description of the new domain could not be parsed.
    #[error("reading libvirt's description of the new domain: {0}")]
    DomainDescription(String),
    /// A device plugin has not handed over its iommufd.
    #[error(transparent)]
    IommuFd(#[from] IommuFdError),
    /// A file system call timed out.
    #[error(transparent)]
    NoAnswer(#[from] NoAnswer),
}
