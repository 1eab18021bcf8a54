//! The metadata of a claim's devices that the DRA driver publishes in the pod (KEP-5304).

use std::collections::BTreeMap;

use kubevirt_api::vmi::null_as_default;
use serde::Deserialize;

use crate::host_facts::ClaimedDevice;

/// The supported versions of the metadata.
const SUPPORTED_VERSIONS: [&str; 1] = ["metadata.resource.k8s.io/v1alpha1"];
const PCI_ADDRESS_ATTRIBUTE: &str = "resource.kubernetes.io/pciBusID";
const MDEV_UUID_ATTRIBUTE: &str = "mdevUUID";

/// Why the device of a request is not known from the metadata.
#[derive(Debug, thiserror::Error)]
pub enum MetadataError {
    /// The metadata is not a stream of JSON objects.
    #[error("device metadata are not understood: {0}")]
    Syntax(#[from] serde_json::Error),
    /// No object has a supported version.
    #[error("no compatible metadata version found in stream (unknown versions: {0})")]
    Version(String),
    /// The metadata does not contain the request.
    #[error(
        "request {request:?} not found in metadata for claim {claim:?} (available requests: {available})"
    )]
    NoRequest {
        /// The request.
        request: String,
        /// The claim's name in the metadata.
        claim: String,
        /// The requests in the metadata.
        available: String,
    },
    /// The request has no device, or several.
    #[error("request {request:?} has {count} devices, and must have exactly one")]
    Count {
        /// The request.
        request: String,
        /// The number of devices.
        count: usize,
    },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Version {
    api_version: String,
}

#[derive(Deserialize)]
struct Metadata {
    #[serde(default, deserialize_with = "null_as_default")]
    metadata: Name,
    #[serde(default, deserialize_with = "null_as_default")]
    requests: Vec<Request>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Name {
    #[serde(deserialize_with = "null_as_default")]
    name: String,
}

#[derive(Deserialize)]
struct Request {
    #[serde(default, deserialize_with = "null_as_default")]
    name: String,
    #[serde(default, deserialize_with = "null_as_default")]
    devices: Vec<Device>,
}

#[derive(Deserialize)]
struct Device {
    #[serde(default, deserialize_with = "null_as_default")]
    attributes: BTreeMap<String, Option<Attribute>>,
}

#[derive(Deserialize)]
struct Attribute {
    string: Option<String>,
}

/// Reads the device of a request from the metadata, which is a stream of JSON objects with the same data in several
/// versions.
///
/// # Errors
/// [`MetadataError`] if there is not exactly one device for the request.
pub fn device(text: &str, request: &str) -> Result<ClaimedDevice, MetadataError> {
    let metadata = metadata_of_supported_version(text)?;
    let mut requests = metadata.requests.iter();
    let Some(entry) = requests.find(|entry| entry.name == request) else {
        let names: Vec<_> = metadata.requests.iter().map(|entry| &*entry.name).collect();
        return Err(MetadataError::NoRequest {
            request: request.to_owned(),
            claim: metadata.metadata.name,
            available: names.join(", "),
        });
    };
    let [device] = entry.devices.as_slice() else {
        return Err(MetadataError::Count {
            request: request.to_owned(),
            count: entry.devices.len(),
        });
    };
    let attribute_text = |name: &str| {
        let attribute = device.attributes.get(name);
        attribute.and_then(|attribute| attribute.as_ref()?.string.clone())
    };
    Ok(ClaimedDevice {
        pci_address: attribute_text(PCI_ADDRESS_ATTRIBUTE).unwrap_or_default(),
        mdev_uuid: attribute_text(MDEV_UUID_ATTRIBUTE).unwrap_or_default(),
        ..ClaimedDevice::default()
    })
}

fn metadata_of_supported_version(text: &str) -> Result<Metadata, MetadataError> {
    let mut unknown = Vec::new();
    for object in serde_json::Deserializer::from_str(text).into_iter::<serde_json::Value>() {
        let object = object?;
        let Version { api_version } = Version::deserialize(&object)?;
        if SUPPORTED_VERSIONS.contains(&&*api_version) {
            return Ok(Metadata::deserialize(object)?);
        }
        unknown.push(api_version);
    }
    Err(MetadataError::Version(unknown.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PUBLISHED: &str = r#"{"apiVersion":"metadata.resource.k8s.io/v2","kind":"DeviceMetadata","new":1}
        {"apiVersion":"metadata.resource.k8s.io/v1alpha1","kind":"DeviceMetadata","metadata":{"name":"claim-x"},"requests":[
          {"name":"gpu","devices":[{"driver":"d","pool":"p","name":"n","attributes":{
            "resource.kubernetes.io/pciBusID":{"string":"0000:65:00.0"},"index":{"int":3}}}]},
          {"name":"two","devices":[{},{}]}]}"#;

    #[test]
    fn request_must_have_exactly_one_device() {
        let gpu = device(PUBLISHED, "gpu").unwrap();
        assert_eq!(gpu.pci_address, "0000:65:00.0");
        assert_eq!(gpu.mdev_uuid, "");
        let error_text = |text: &str, request: &str| device(text, request).unwrap_err().to_string();
        assert_eq!(
            error_text(PUBLISHED, "nic"),
            "request \"nic\" not found in metadata for claim \"claim-x\" (available requests: gpu, two)"
        );
        assert!(error_text(PUBLISHED, "two").contains("has 2 devices"));
        let nulls = r#"{"apiVersion":"metadata.resource.k8s.io/v1alpha1","metadata":null,"requests":[
          {"name":null,"devices":null},{"name":"gpu","devices":[{"attributes":{"mdevUUID":null}}]}]}"#;
        assert_eq!(device(nulls, "gpu").unwrap(), ClaimedDevice::default());
        assert!(error_text(r#"{"apiVersion":"v9"}"#, "gpu").contains("unknown versions: v9"));
        for text in ["{", "{}", "[]", "1", r#"{"apiVersion":1}"#] {
            assert!(device(text, "gpu").is_err(), "{text}");
        }
    }
}
