//! Devices of the host given to the guest.

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
    /// Claim that it comes from instead.
    pub claim_name: Option<String>,
    /// Request in that claim.
    pub request_name: Option<String>,
    /// Its display.
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
    /// Its display.
    pub display: Option<VirtualGpuDisplay>,
}

/// The display of a virtual GPU.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct VirtualGpuDisplay {
    /// On by default.
    pub enabled: Option<bool>,
    /// A frame buffer before the guest's driver is loaded; on by default.
    #[serde(rename = "ramFB")]
    pub ram_fb: Option<FeatureState>,
}

/// Any other device.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct HostDevice {
    /// Name.
    #[serde(deserialize_with = "null_as_default")]
    pub name: String,
    /// Resource name of its device plugin.
    #[serde(deserialize_with = "null_as_default")]
    pub device_name: String,
    /// Claim that it comes from instead.
    pub claim_name: Option<String>,
    /// Request in that claim.
    pub request_name: Option<String>,
    /// Tag in the guest's device metadata.
    #[serde(deserialize_with = "null_as_default")]
    pub tag: String,
}

/// A claim of the cluster's dynamic resource allocation.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ResourceClaim {
    /// Name by which devices refer to it.
    #[serde(deserialize_with = "null_as_default")]
    pub name: String,
    /// The claim, when it exists by itself.
    pub resource_claim_name: Option<String>,
}

/// A request of a claim.
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
