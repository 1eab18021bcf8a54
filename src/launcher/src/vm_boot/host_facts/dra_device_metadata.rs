//! Reads the devices of DRA resource claims from the metadata files that their drivers publish in the pod.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use domain::host_facts::ClaimedDevice;
use domain::resource_claims::{ClaimedRequest, device};

/// Where the kubelet mounts the metadata files (KEP-5304).
pub(super) const METADATA_DIRECTORY: &str = "/var/run/kubernetes.io/dra-device-attributes";
/// The suffix of a driver's metadata file in the directory of a request.
const FILE_SUFFIX: &str = "-metadata.json";
/// Maximum number of bytes that are read of a file. A file describes one device, in a handful of versions.
const MAX_BYTES: u64 = 1 << 20;

/// The device of each request, by claim and request. A request without a device has the reason in
/// [`ClaimedDevice::problem`].
pub(super) fn devices(
    metadata: &Path,
    requests: &[ClaimedRequest],
) -> BTreeMap<String, BTreeMap<String, ClaimedDevice>> {
    let mut devices: BTreeMap<String, BTreeMap<_, _>> = BTreeMap::new();
    for request in requests {
        let device = read(&metadata.join(&request.directory), &request.request);
        let device = device.unwrap_or_else(|problem| ClaimedDevice {
            problem,
            ..ClaimedDevice::default()
        });
        devices
            .entry(request.claim.clone())
            .or_default()
            .insert(request.request.clone(), device);
    }
    devices
}

fn read(directory: &Path, request: &str) -> Result<ClaimedDevice, String> {
    let file = metadata_file(directory)?;
    let with_path = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
    let opened = fs::File::open(&file).map_err(|error| with_path(&error))?;
    let mut text = String::new();
    opened
        .take(MAX_BYTES)
        .read_to_string(&mut text)
        .map_err(|error| with_path(&error))?;
    device(&text, request).map_err(|error| with_path(&error))
}

/// The only metadata file in the directory, since one driver serves a request.
fn metadata_file(directory: &Path) -> Result<PathBuf, String> {
    let entries = fs::read_dir(directory)
        .map_err(|error| format!("no device metadata in {}: {error}", directory.display()))?;
    let files: Vec<_> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.to_string_lossy().ends_with(FILE_SUFFIX))
        .collect();
    match files.as_slice() {
        [file] => Ok(file.clone()),
        files => Err(format!(
            "{} has {} files of device metadata (*{FILE_SUFFIX}), and must have exactly one",
            directory.display(),
            files.len()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const METADATA: &str = r#"{"apiVersion":"metadata.resource.k8s.io/v1alpha1","requests":[
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
        let read_device = |root: &Path| devices(root, &[request()])["a"]["gpu"].clone();
        assert!(
            read_device(root.path())
                .problem
                .contains("no device metadata in")
        );
        let directory = root.path().join("resourceclaims/a/gpu");
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("other"), "").unwrap();
        assert!(read_device(root.path()).problem.contains("has 0 files"));
        fs::write(directory.join("driver-metadata.json"), METADATA).unwrap();
        assert_eq!(read_device(root.path()).mdev_uuid, "uuid");
        fs::write(directory.join("second-metadata.json"), METADATA).unwrap();
        assert!(read_device(root.path()).problem.contains("has 2 files"));
    }
}
