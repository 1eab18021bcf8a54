//! The files in a pod's directories, and their number and size.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use tests::pod::Pod;

/// The paths of all files in a pod, relative to its root directory.
pub(super) fn files_of_pod(pod: &Pod) -> Result<BTreeSet<String>> {
    let root = pod.path("/run");
    let root = root.parent().context("a pod has a directory")?;
    let mut files = BTreeSet::new();
    collect_files(root, root, &mut files)?;
    Ok(files)
}

fn collect_files(root: &Path, directory: &Path, files: &mut BTreeSet<String>) -> Result<()> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() && !path.is_symlink() {
            collect_files(root, &path, files)?;
        } else if path.extension().is_none_or(|extension| extension != "new") {
            // libvirt writes its state to `NAME.xml.new` first.
            files.insert(path.strip_prefix(root)?.to_string_lossy().into_owned());
        }
    }
    Ok(())
}

/// The number of entries and the size of the files in a directory tree.
#[derive(Default)]
pub(super) struct DiskUsage {
    pub(super) files: usize,
    pub(super) bytes: u64,
}

pub(super) fn disk_usage(directory: &Path) -> Result<DiskUsage> {
    let mut usage = DiskUsage::default();
    let mut directories = vec![directory.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory)? {
            let entry = entry?;
            let metadata = entry.metadata()?;
            usage.files += 1;
            usage.bytes += if metadata.is_file() {
                metadata.len()
            } else {
                0
            };
            if metadata.is_dir() {
                directories.push(entry.path());
            }
        }
    }
    Ok(usage)
}
