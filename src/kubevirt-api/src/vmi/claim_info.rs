//! The claims (PVCs) behind volumes, as the cluster records them.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{Quantity, null_as_default};

/// The claim behind a volume.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ClaimInfo {
    /// `Block` or `Filesystem`.
    pub volume_mode: Option<String>,
    /// The capacity of the volume.
    #[serde(deserialize_with = "null_as_default")]
    pub capacity: BTreeMap<String, Quantity>,
    /// The requested resources.
    #[serde(deserialize_with = "null_as_default")]
    pub requests: BTreeMap<String, Quantity>,
    /// The fraction of the volume that the file system uses, such as `0.055`.
    pub filesystem_overhead: Option<String>,
    /// Whether the image is fully allocated.
    #[serde(deserialize_with = "null_as_default")]
    pub preallocated: bool,
}
