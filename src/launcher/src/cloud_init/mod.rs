//! The pod's side of cloud-init: secrets read from their mounts, the image written.
//!
//! The data and their rules are [`domain::cloud_init`]'s. The image is written by this process and
//! not by an external program: that took a tenth of a second on the way of every start, and put
//! passwords into files on the way.

pub mod iso9660;
mod secrets;
mod topology;

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use domain::cloud_init::{CloudInitData, CloudInitError};
use tokio::time::timeout;

use crate::disks::DiskError;
pub use secrets::SecretDirectory;
pub use topology::SysTopology;

/// How long writing an image may take.
const DEADLINE: Duration = Duration::from_secs(10);
/// Images are padded to whole mebibytes, as KubeVirt's are: a migration target makes room for one
/// before it knows the content.
const ALIGNMENT: u64 = 1024 * 1024;
const MODE: u32 = 0o640;

/// The image is not written.
#[derive(Debug, thiserror::Error)]
pub enum IsoError {
    /// There is nothing to put into it.
    #[error("cloud-init image {path}: {source}")]
    Data {
        /// The image.
        path: PathBuf,
        /// What is missing.
        source: CloudInitError,
    },
    /// The content does not fit the format.
    #[error("cloud-init image {path}: {source}")]
    Format {
        /// The image.
        path: PathBuf,
        /// What does not fit.
        source: iso9660::FormatError,
    },
    /// The file cannot be written.
    #[error("{what} cloud-init image {path}: {source}")]
    Io {
        /// What was done.
        what: &'static str,
        /// The image.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// It cannot be given to QEMU's user.
    #[error(transparent)]
    Give(DiskError),
    /// The file system hangs.
    #[error(
        "writing cloud-init image {path} took longer than {DEADLINE:?}: is its file system reachable?"
    )]
    Deadline {
        /// The image.
        path: PathBuf,
    },
}

/// Writes the image for these data to `path`, replacing one that is there; its directory is made.
/// The image appears under its name when it is complete.
///
/// # Errors
/// [`IsoError`], naming the image.
pub async fn write_iso(data: &CloudInitData, path: &Path) -> Result<(), IsoError> {
    let (data, target) = (data.clone(), path.to_owned());
    let written = tokio::task::spawn_blocking(move || write_blocking(&data, &target));
    let io = |source| IsoError::Io {
        what: "writing",
        path: path.to_owned(),
        source,
    };
    timeout(DEADLINE, written)
        .await
        .map_err(|_| IsoError::Deadline {
            path: path.to_owned(),
        })?
        .map_err(|error| io(io::Error::other(error)))?
}

fn write_blocking(data: &CloudInitData, path: &Path) -> Result<(), IsoError> {
    let image = render(data, path)?;
    let failed = |what| {
        move |source| IsoError::Io {
            what,
            path: path.to_owned(),
            source,
        }
    };
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory).map_err(failed("making the directory of"))?;
    }
    let part = part_name(path);
    let placed = write_part(&part, &image)
        .map_err(failed("writing"))
        .and_then(|()| crate::disks::give(&part).map_err(IsoError::Give))
        .and_then(|()| fs::rename(&part, path).map_err(failed("putting in place")));
    if placed.is_err() {
        let _ = fs::remove_file(&part);
    }
    placed
}

fn render(data: &CloudInitData, path: &Path) -> Result<Vec<u8>, IsoError> {
    let files = domain::cloud_init::files(data).map_err(|source| IsoError::Data {
        path: path.to_owned(),
        source,
    })?;
    let files = files
        .iter()
        .map(|file| (file.path, file.content.as_slice()))
        .collect::<Vec<_>>();
    let label = data.data_source.volume_label();
    iso9660::image(label, &files).map_err(|source| IsoError::Format {
        path: path.to_owned(),
        source,
    })
}

/// Unlike any other's: a caller that gave up may have left a writer behind.
fn part_name(path: &Path) -> PathBuf {
    static WRITERS: AtomicU64 = AtomicU64::new(0);
    let number = WRITERS.fetch_add(1, Ordering::Relaxed);
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{number}.part"));
    name.into()
}

fn write_part(part: &Path, image: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(MODE)
        .open(part)?;
    file.write_all(image)?;
    file.set_len((image.len() as u64).next_multiple_of(ALIGNMENT))
}

#[cfg(test)]
mod tests;
