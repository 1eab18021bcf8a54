//! Checks that the hotplugged disks of a VM from another cluster are in this pod.

use std::fs;
use std::io;
use std::path::Path;

use kubevirt_api::vmi::Vmi;

use crate::blocking;
use crate::manager::command_error::CommandError;
use crate::untrusted_file::open_image;
use crate::vm_boot::boot_resources::FILE_TIMEOUT;

/// Requires that `directory` has as many files as the VMI has hotplugged volumes, and that each can be opened. A
/// missing directory is accepted, as by KubeVirt's launcher.
pub(super) async fn require(vmi: &Vmi, directory: &Path) -> Result<(), CommandError> {
    let expected = hotplugged_volume_count(vmi);
    let directory = directory.to_owned();
    let check = move || check(expected, &directory);
    let checked = blocking::file_call("looking for hotplugged disks", FILE_TIMEOUT, check).await?;
    checked.map_err(CommandError::HotplugDisks)
}

fn hotplugged_volume_count(vmi: &Vmi) -> usize {
    let volumes = vmi.value()["spec"]["volumes"].as_array();
    let is_hotplugged = |volume: &&serde_json::Value| {
        ["dataVolume", "persistentVolumeClaim"]
            .iter()
            .any(|source| volume[*source]["hotpluggable"] == true)
    };
    volumes.into_iter().flatten().filter(is_hotplugged).count()
}

fn check(expected: usize, directory: &Path) -> Result<(), String> {
    if expected == 0 {
        return Ok(());
    }
    let unreadable =
        |path: &Path, error: io::Error| format!("hotplugged disk {}: {error}", path.display());
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(|error| unreadable(directory, error))?,
    };
    let files: Result<Vec<_>, _> = entries.map(|entry| Ok(entry?.path())).collect();
    let files = files.map_err(|error| unreadable(directory, error))?;
    if files.len() != expected {
        return Err(format!(
            "found {} hotplugged disks files in {}, expected {expected}",
            files.len(),
            directory.display()
        ));
    }
    let failures: Vec<_> = files
        .iter()
        .filter_map(|file| Some(unreadable(file, open_image(file).err()?)))
        .collect();
    match failures.is_empty() {
        true => Ok(()),
        false => Err(failures.join("; ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hotplugged_data_volumes_and_claims_are_counted() {
        let vmi = r#"{"metadata":{"name":"vm1","namespace":"default"},"spec":{"volumes":[
            {"name":"a","dataVolume":{"name":"a","hotpluggable":true}},{"name":"b","dataVolume":{"name":"b"}},
            {"name":"c","persistentVolumeClaim":{"claimName":"c","hotpluggable":true}}]}}"#;
        assert_eq!(
            hotplugged_volume_count(&Vmi::from_json(vmi.as_bytes()).unwrap()),
            2
        );
    }

    #[test]
    fn missing_disk_is_reported() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(check(0, directory.path()), Ok(()));
        assert_eq!(check(1, &directory.path().join("none")), Ok(()));
        let error = check(1, directory.path()).unwrap_err();
        assert!(
            error.starts_with("found 0 hotplugged disks files"),
            "{error}"
        );
        fs::write(directory.path().join("disk.img"), "").unwrap();
        assert_eq!(check(1, directory.path()), Ok(()));
    }
}
