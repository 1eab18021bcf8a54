//! Removes the files that virt-launcher generates for one life of a VM: cloud-init and config disks, which hold user
//! data and secrets, overlays, empty disks and compiled hooks. A pod that has ended keeps its directories until it is
//! deleted.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The pod's private directory.
const PRIVATE: &str = "/var/run/kubevirt-private";
/// The directory of the images of emptyDisk volumes.
const EMPTY_DISKS: &str = "/var/run/libvirt/empty-disks";

/// Directories below the private one. Those that hold mounted volumes, the state of UEFI and TPM, sockets and logs are
/// not among them.
const BELOW_PRIVATE: [&str; 6] = [
    "config-map-disks",
    "sysprep-disks",
    "secret-disks",
    "downwardapi-disks",
    "service-account-disk",
    "hook-artifacts",
];
/// Directories below that of ephemeral disks.
const BELOW_EPHEMERAL_DISKS: [&str; 3] = ["cloud-init-data", "ignition-data", "disk-data"];

/// Removes the generated files; `ephemeral_disks` is `--ephemeral-disk-dir`. After a failure the others are removed
/// too, and the first error is returned.
pub(crate) fn remove(ephemeral_disks: &Path) -> io::Result<()> {
    remove_all(directories(
        ephemeral_disks,
        Path::new(PRIVATE),
        Path::new(EMPTY_DISKS),
    ))
}

fn directories(
    ephemeral_disks: &Path,
    private: &Path,
    empty_disks: &Path,
) -> impl Iterator<Item = PathBuf> {
    let ephemeral = BELOW_EPHEMERAL_DISKS.map(|name| ephemeral_disks.join(name));
    let private = BELOW_PRIVATE.map(|name| private.join(name));
    let all = ephemeral.into_iter().chain(private);
    all.chain([empty_disks.to_owned()])
}

/// Links are removed, and not followed: QEMU can write to some of the directories.
fn remove_all(directories: impl Iterator<Item = PathBuf>) -> io::Result<()> {
    let removed: Vec<io::Result<()>> = directories
        .map(|path| match fs::remove_dir_all(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(io::Error::new(
                error.kind(),
                format!("{}: {error}", path.display()),
            )),
            _ => Ok(()),
        })
        .collect();
    removed.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All files below a directory, by their paths.
    fn files(directory: &Path) -> Vec<PathBuf> {
        let mut found = Vec::new();
        for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
            match entry.file_type().unwrap().is_dir() {
                true => found.extend(files(&entry.path())),
                false => found.push(entry.path()),
            }
        }
        found
    }

    #[test]
    fn generated_files_are_removed_and_state_is_kept() {
        let pod = tempfile::tempdir().unwrap();
        let path = |name: &str| pod.path().join(name);
        let kept = [
            "private/libvirt/qemu/lib/nvram/vm_VARS.fd",
            "private/config-map/settings/app.conf",
            "private/vmi-disks/data/disk.img",
            "private/1234/virt-serial0-log",
            "private/backend-storage-meta/migrated",
        ];
        let removed = [
            "ephemeral/cloud-init-data/default/vm/noCloud.iso",
            "ephemeral/ignition-data/default/vm/data.ign",
            "ephemeral/disk-data/root/disk.qcow2",
            "private/secret-disks/keys.iso",
            "private/hook-artifacts/1.cwasm",
            "empty/scratch.qcow2",
        ];
        for name in kept.iter().chain(&removed) {
            fs::create_dir_all(path(name).parent().unwrap()).unwrap();
            fs::write(path(name), "").unwrap();
        }
        std::os::unix::fs::symlink(path("private/vmi-disks"), path("private/sysprep-disks"))
            .unwrap();
        let clean_up = || {
            remove_all(directories(
                &path("ephemeral"),
                &path("private"),
                &path("empty"),
            ))
        };
        clean_up().unwrap();
        clean_up().unwrap();
        let mut found = files(pod.path());
        let mut expected = kept.map(path).to_vec();
        found.sort();
        expected.sort();
        assert_eq!(found, expected);
    }
}
