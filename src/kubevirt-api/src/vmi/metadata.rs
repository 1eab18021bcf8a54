//! `metadata`: Kubernetes' object metadata.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::null_as_default;

/// The part of the object metadata that is read.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Metadata {
    /// Name.
    #[serde(deserialize_with = "null_as_default")]
    pub name: String,
    /// Namespace.
    #[serde(deserialize_with = "null_as_default")]
    pub namespace: String,
    /// UID.
    #[serde(deserialize_with = "null_as_default")]
    pub uid: String,
    /// Annotations.
    #[serde(deserialize_with = "null_as_default")]
    pub annotations: BTreeMap<String, String>,
    /// Labels.
    #[serde(deserialize_with = "null_as_default")]
    pub labels: BTreeMap<String, String>,
    /// When the object is deleted, if deletion was requested. RFC 3339.
    pub deletion_timestamp: Option<String>,
}
