//! Devices from resource claims (Kubernetes' dynamic resource allocation): the requests of a VMI, and the metadata
//! that drivers publish in the pod (KEP-5304).

use std::collections::BTreeMap;

use kubevirt_api::vmi::{Vmi, null_as_default};
use serde::Deserialize;

use crate::host_facts::ClaimedDevice;

/// Supported versions of the metadata.
const VERSIONS: [&str; 1] = ["metadata.resource.k8s.io/v1alpha1"];
const PCI_ADDRESS: &str = "resource.kubernetes.io/pciBusID";
const MDEV_UUID: &str = "mdevUUID";

/// A device that the VMI requests through a claim.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClaimedRequest {
    /// The claim's name in `spec.resourceClaims`.
    pub claim: String,
    /// The request in the claim.
    pub request: String,
    /// The directory of the metadata, relative to the one that the kubelet mounts.
    pub directory: String,
}

/// Why the device is not known from the metadata.
#[derive(Debug, thiserror::Error)]
pub enum MetadataError {
    /// Not a stream of JSON objects.
    #[error("device metadata are not understood: {0}")]
    Syntax(#[from] serde_json::Error),
    /// No object has a supported version.
    #[error("no compatible metadata version found in stream (unknown versions: {0})")]
    Version(String),
    /// The driver publishes other requests only.
    #[error(
        "request {request:?} not found in metadata for claim {claim:?} (available requests: {available})"
    )]
    NoRequest {
        /// The request.
        request: String,
        /// The claim's name in the metadata.
        claim: String,
        /// The requests that are published.
        available: String,
    },
    /// The request has no device or several.
    #[error("request {request:?} has {count} devices, and must have exactly one")]
    Count {
        /// The request.
        request: String,
        /// The number of devices.
        count: usize,
    },
}

/// The requests of the VMI's devices and networks, each once. Claims that are not listed in `spec.resourceClaims` and
/// names that are not valid for a directory are left out.
pub fn claimed_requests(vmi: &Vmi) -> Vec<ClaimedRequest> {
    let devices = &vmi.spec.domain.devices;
    let gpus = devices.gpus.iter();
    let gpus = gpus.map(|gpu| (gpu.claim_name.as_deref(), gpu.request_name.as_deref()));
    let others = devices.host_devices.iter();
    let others =
        others.map(|device| (device.claim_name.as_deref(), device.request_name.as_deref()));
    let networks = vmi.spec.networks.iter();
    let networks = networks.filter_map(|network| network.resource_claim.as_ref());
    let networks = networks.map(|claim| (Some(&*claim.claim_name), Some(&*claim.request_name)));
    let mut requests: Vec<_> = gpus
        .chain(others)
        .chain(networks)
        .filter_map(|(claim, request)| claimed_request(vmi, claim?, request?))
        .collect();
    requests.sort();
    requests.dedup();
    requests
}

fn claimed_request(vmi: &Vmi, claim: &str, request: &str) -> Option<ClaimedRequest> {
    let mut claims = vmi.spec.resource_claims.iter();
    let listed = claims.find(|listed| listed.name == claim)?;
    let existing = listed.resource_claim_name.as_deref();
    let (kind, name) = match existing.filter(|name| !name.is_empty()) {
        Some(name) => ("resourceclaims", name),
        None => ("resourceclaimtemplates", claim),
    };
    (is_name(name) && is_name(request)).then(|| ClaimedRequest {
        claim: claim.to_owned(),
        request: request.to_owned(),
        directory: format!("{kind}/{name}/{request}"),
    })
}

fn is_name(text: &str) -> bool {
    !matches!(text, "" | "." | "..") && !text.contains(['/', '\0'])
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

/// The device of a request, from the metadata that its driver publishes: a stream of JSON objects with the same data
/// in several versions.
///
/// # Errors
/// [`MetadataError`] if there is not exactly one device for the request.
pub fn device(text: &str, request: &str) -> Result<ClaimedDevice, MetadataError> {
    let metadata = metadata_of_supported_version(text)?;
    let Some(found) = metadata.requests.iter().find(|found| found.name == request) else {
        let names: Vec<_> = metadata.requests.iter().map(|found| &*found.name).collect();
        return Err(MetadataError::NoRequest {
            request: request.to_owned(),
            claim: metadata.metadata.name,
            available: names.join(", "),
        });
    };
    let [device] = found.devices.as_slice() else {
        return Err(MetadataError::Count {
            request: request.to_owned(),
            count: found.devices.len(),
        });
    };
    let text = |name: &str| {
        let attribute = device.attributes.get(name);
        attribute.and_then(|attribute| attribute.as_ref()?.string.clone())
    };
    Ok(ClaimedDevice {
        pci_address: text(PCI_ADDRESS).unwrap_or_default(),
        mdev_uuid: text(MDEV_UUID).unwrap_or_default(),
        ..ClaimedDevice::default()
    })
}

fn metadata_of_supported_version(text: &str) -> Result<Metadata, MetadataError> {
    let mut unknown = Vec::new();
    for object in serde_json::Deserializer::from_str(text).into_iter::<serde_json::Value>() {
        let object = object?;
        let Version { api_version } = Version::deserialize(&object)?;
        if VERSIONS.contains(&&*api_version) {
            return Ok(Metadata::deserialize(object)?);
        }
        unknown.push(api_version);
    }
    Err(MetadataError::Version(unknown.join(", ")))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;

    const PUBLISHED: &str = r#"{"apiVersion":"metadata.resource.k8s.io/v2","kind":"DeviceMetadata","new":1}
        {"apiVersion":"metadata.resource.k8s.io/v1alpha1","kind":"DeviceMetadata","metadata":{"name":"claim-x"},"requests":[
          {"name":"gpu","devices":[{"driver":"d","pool":"p","name":"n","attributes":{
            "resource.kubernetes.io/pciBusID":{"string":"0000:65:00.0"},"index":{"int":3}}}]},
          {"name":"two","devices":[{},{}]}]}"#;

    #[test]
    fn one_request_is_one_device() {
        let found = device(PUBLISHED, "gpu").unwrap();
        assert_eq!(found.pci_address, "0000:65:00.0");
        assert_eq!(found.mdev_uuid, "");
        let refusal = |text: &str, request: &str| device(text, request).unwrap_err().to_string();
        assert_eq!(
            refusal(PUBLISHED, "nic"),
            "request \"nic\" not found in metadata for claim \"claim-x\" (available requests: gpu, two)"
        );
        assert!(refusal(PUBLISHED, "two").contains("has 2 devices"));
        let nulls = r#"{"apiVersion":"metadata.resource.k8s.io/v1alpha1","metadata":null,"requests":[
          {"name":null,"devices":null},{"name":"gpu","devices":[{"attributes":{"mdevUUID":null}}]}]}"#;
        assert_eq!(device(nulls, "gpu").unwrap(), ClaimedDevice::default());
        assert!(refusal(r#"{"apiVersion":"v9"}"#, "gpu").contains("unknown versions: v9"));
        for text in ["{", "{}", "[]", "1", r#"{"apiVersion":1}"#] {
            assert!(device(text, "gpu").is_err(), "{text}");
        }
    }

    #[test]
    fn requests_by_where_their_metadata_are() {
        let vmi = json!({"metadata": {"name": "vm"}, "spec": {
            "domain": {"devices": {
                "gpus": [{"name": "g", "claimName": "a", "requestName": "gpu"},
                         {"name": "h", "claimName": "a", "requestName": "gpu"},
                         {"name": "i", "claimName": "a", "requestName": "../../etc"}],
                "hostDevices": [{"name": "d", "claimName": "missing", "requestName": "r"}]}},
            "networks": [{"name": "n", "resourceClaim": {"claimName": "b", "requestName": "vf"}}],
            "resourceClaims": [{"name": "a", "resourceClaimName": "mine"}, {"name": "b"}]}});
        let vmi = Vmi::from_json(vmi.to_string().as_bytes()).unwrap();
        let directories: Vec<_> = claimed_requests(&vmi)
            .into_iter()
            .map(|request| request.directory)
            .collect();
        assert_eq!(
            directories,
            ["resourceclaims/mine/gpu", "resourceclaimtemplates/b/vf"]
        );
    }
}
