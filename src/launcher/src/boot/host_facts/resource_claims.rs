//! Devices of resource claims, from the metadata that their drivers publish in the pod.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use domain::host_facts::ClaimedDevice;
use domain::resource_claims::{ClaimedRequest, device};

/// Where the kubelet mounts what drivers publish (KEP-5304).
pub(super) const METADATA: &str = "/var/run/kubernetes.io/dra-device-attributes";
/// The suffix of a driver's file in a request's directory.
const SUFFIX: &str = "-metadata.json";
/// A file describes one device, in a handful of versions.
const MAX_BYTES: u64 = 1 << 20;

/// The device of each request; a request without one says why.
pub(super) fn devices(
    metadata: &Path,
    requests: &[ClaimedRequest],
) -> BTreeMap<String, BTreeMap<String, ClaimedDevice>> {
    let mut devices: BTreeMap<String, BTreeMap<_, _>> = BTreeMap::new();
    for request in requests {
        let found = read(&metadata.join(&request.directory), &request.request);
        let found = found.unwrap_or_else(|problem| ClaimedDevice {
            problem,
            ..ClaimedDevice::default()
        });
        devices
            .entry(request.claim.clone())
            .or_default()
            .insert(request.request.clone(), found);
    }
    devices
}

fn read(directory: &Path, request: &str) -> Result<ClaimedDevice, String> {
    let file = metadata_file(directory)?;
    let named = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
    let opened = fs::File::open(&file).map_err(|error| named(&error))?;
    let mut text = String::new();
    opened
        .take(MAX_BYTES)
        .read_to_string(&mut text)
        .map_err(|error| named(&error))?;
    device(&text, request).map_err(|error| named(&error))
}

/// One driver serves a request.
fn metadata_file(directory: &Path) -> Result<PathBuf, String> {
    let entries = fs::read_dir(directory)
        .map_err(|error| format!("no device metadata in {}: {error}", directory.display()))?;
    let files: Vec<_> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.to_string_lossy().ends_with(SUFFIX))
        .collect();
    match files.as_slice() {
        [file] => Ok(file.clone()),
        files => Err(format!(
            "{} has {} files of device metadata (*{SUFFIX}), and must have exactly one",
            directory.display(),
            files.len()
        )),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const PUBLISHED: &str = r#"{"apiVersion":"metadata.resource.k8s.io/v1alpha1","requests":[
        {"name":"gpu","devices":[{"attributes":{"mdevUUID":{"string":"uuid"}}}]}]}"#;

    fn request() -> ClaimedRequest {
        ClaimedRequest {
            claim: "a".into(),
            request: "gpu".into(),
            directory: "resourceclaims/a/gpu".into(),
        }
    }

    #[test]
    fn device_is_read_from_the_only_metadata_file() {
        let root = tempfile::tempdir().unwrap();
        let found = |root: &Path| devices(root, &[request()])["a"]["gpu"].clone();
        assert!(found(root.path()).problem.contains("no device metadata in"));
        let directory = root.path().join("resourceclaims/a/gpu");
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("other"), "").unwrap();
        assert!(found(root.path()).problem.contains("has 0 files"));
        fs::write(directory.join("driver-metadata.json"), PUBLISHED).unwrap();
        assert_eq!(found(root.path()).mdev_uuid, "uuid");
        fs::write(directory.join("second-metadata.json"), PUBLISHED).unwrap();
        assert!(found(root.path()).problem.contains("has 2 files"));
    }
}
