//! cloud-init: KubeVirt's `CloudInitData` of a VMI, and the files of the image for the guest.
//!
//! ```text
//! VMI + secrets ─ read ─▶ CloudInitData ─ hooks (JSON) ─▶ merge_hook_output ─┐
//! defined domain ─ tagged_devices::metadata ─▶ devices_data ─────────────────┴─ files ─▶ image
//! ```
//!
//! The rules are those of KubeVirt v1.9's pkg/cloud-init.

mod cloud_init_data;
mod error;
mod hook_output;
mod image_files;
mod instance_identity;
mod instance_metadata;
mod read_from_vmi;
mod ssh_public_keys;
pub mod tagged_devices;

pub use cloud_init_data::{CloudInitData, DataSource};
pub use error::CloudInitError;
pub use hook_output::{HookOutputError, MAX_JSON_BYTES};
pub use image_files::{IsoFile, files};
pub use instance_metadata::{ConfigDriveMetadata, DeviceData, NoCloudMetadata};
pub use read_from_vmi::{missing_secret_data, read};

#[cfg(test)]
mod tests;
