//! cloud-init: KubeVirt's `CloudInitData` of a VMI, and the files of the image that carries them into the guest.
//!
//! ```text
//! VMI + secrets ─ read ─▶ CloudInitData ─ hooks (JSON) ─▶ with_hooked ─┐
//! defined domain ─ tagged_devices::metadata ─▶ devices_data ───────────┴─ files ─▶ image
//! ```
//!
//! Rules as in KubeVirt v1.9's pkg/cloud-init.

mod cloud_init_data;
mod error;
mod image_files;
mod instance_identity;
mod read_from_vmi;
pub mod tagged_devices;

pub use cloud_init_data::{
    CloudInitData, ConfigDriveMetadata, DataSource, DeviceData, HookedDataError, MAX_JSON_BYTES,
    NoCloudMetadata,
};
pub use error::CloudInitError;
pub use image_files::{IsoFile, files};
pub use read_from_vmi::read;

#[cfg(test)]
mod tests;
