//! GPUs and other devices of the node (`gpus`, `hostDevices`), and resource claims (`resourceClaims`).

use serde::Deserialize;

use super::{FeatureState, null_as_default};

/// A GPU or a virtual GPU.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Gpu {
    /// Name.
    #[serde(deserialize_with = "null_as_default")]
    pub name: String,
    /// Resource name of its device plugin.
    #[serde(deserialize_with = "null_as_default")]
    pub device_name: String,
    /// The resource claim of the device, if it does not come from a device plugin.
    pub claim_name: Option<String>,
    /// The request in the resource claim.
    pub request_name: Option<String>,
    /// Options if the device is a virtual GPU.
    #[serde(rename = "virtualGPUOptions")]
    pub virtual_gpu_options: Option<VirtualGpuOptions>,
    /// Tag in the guest's device metadata.
    #[serde(deserialize_with = "null_as_default")]
    pub tag: String,
}

/// Options of a virtual GPU.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct VirtualGpuOptions {
    /// The display.
    pub display: Option<VirtualGpuDisplay>,
}

/// The display of a virtual GPU.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct VirtualGpuDisplay {
    /// On by default.
    pub enabled: Option<bool>,
    /// A frame buffer until the guest's driver is loaded; on by default.
    #[serde(rename = "ramFB")]
    pub ram_fb: Option<FeatureState>,
}

/// A device of the node that is not a GPU.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct HostDevice {
    /// Name.
    #[serde(deserialize_with = "null_as_default")]
    pub name: String,
    /// Resource name of its device plugin.
    #[serde(deserialize_with = "null_as_default")]
    pub device_name: String,
    /// The resource claim of the device, if it does not come from a device plugin.
    pub claim_name: Option<String>,
    /// The request in the resource claim.
    pub request_name: Option<String>,
    /// Tag in the guest's device metadata.
    #[serde(deserialize_with = "null_as_default")]
    pub tag: String,
}

/// A claim of dynamic resource allocation (DRA).
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ResourceClaim {
    /// The name by which devices refer to the claim.
    #[serde(deserialize_with = "null_as_default")]
    pub name: String,
    /// The name of the ResourceClaim object, if it is not created from a template.
    pub resource_claim_name: Option<String>,
}

/// A request in a resource claim.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ClaimRequest {
    /// The claim.
    #[serde(deserialize_with = "null_as_default")]
    pub claim_name: String,
    /// The request.
    #[serde(deserialize_with = "null_as_default")]
    pub request_name: String,
}
