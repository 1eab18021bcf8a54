//! Runs qemu-img with limits of memory and time.

use std::ffi::{OsStr, OsString};
use std::io;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};
use tokio::runtime::Handle;
use tokio::time::timeout;

use super::{DiskImageError, is_present};
use crate::atomic_file::{AtomicFileError, FileAttrs, PendingFile};
use crate::untrusted_file::open_image;
use crate::{atomic_file, blocking};

/// Maximum size of each of the program's output streams, in bytes.
const MAX_OUTPUT_BYTES: u64 = 1024 * 1024;
/// A shell script that limits its process (address space in KiB, CPU time in seconds, no core dumps) and then executes
/// the program. Limits that are set from outside, on a child that already runs, come too late on a busy machine.
const LIMITS_SCRIPT: &str =
    r#"ulimit -v "$1" && ulimit -t "$2" && ulimit -c 0 && shift 2 && exec "$@""#;
/// The shell's exit code for a program that does not exist.
const NOT_FOUND: i32 = 127;

/// How qemu-img is run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskTools {
    /// The program: a path, or a name to look up in `PATH`.
    pub qemu_img: PathBuf,
    /// Limit of the child's address space in bytes: `--disk-memory-limit`.
    pub memory_limit: u64,
    /// Limit of the child's CPU time.
    pub cpu_limit: Duration,
    /// How long one run of qemu-img, or a check whether a file exists, may take.
    pub deadline: Duration,
}

impl DiskTools {
    /// Uses the installed qemu-img with KubeVirt's 10 s of CPU time, and a deadline of 15 s: less than the 20 s after
    /// which virt-handler calls again.
    pub fn new(memory_limit: u64) -> Self {
        Self {
            qemu_img: "qemu-img".into(),
            memory_limit,
            cpu_limit: Duration::from_secs(10),
            deadline: Duration::from_secs(15),
        }
    }
}

/// Runs qemu-img with `verb` and `arguments`, and returns its output. Errors name `image`. Dropping the future kills
/// the child.
pub(super) async fn run<S: AsRef<OsStr>>(
    tools: &DiskTools,
    verb: &'static str,
    image: &Path,
    arguments: &[S],
) -> Result<Vec<u8>, DiskImageError> {
    let mut child = spawn(tools, verb, arguments)?;
    let io_error = |source| DiskImageError::Spawn {
        program: tools.qemu_img.clone(),
        source,
    };
    let (output, errors) = (child.stdout.take(), child.stderr.take());
    let all = async { tokio::try_join!(read(output), read(errors), child.wait()) };
    let (output, errors, status) = timeout(tools.deadline, all)
        .await
        .map_err(|_| DiskImageError::Timeout {
            what: "running qemu-img on",
            image: image.to_owned(),
            deadline: tools.deadline,
        })?
        .map_err(io_error)?;
    if status.success() {
        return Ok(output);
    }
    let message = String::from_utf8_lossy(&errors).trim().to_owned();
    if status.code() == Some(NOT_FOUND) && is_missing(&message) {
        return Err(DiskImageError::QemuImgNotFound {
            program: tools.qemu_img.clone(),
        });
    }
    Err(DiskImageError::QemuImg {
        verb,
        image: image.to_owned(),
        status: status.to_string(),
        message,
    })
}

/// Whether the error output says that the program does not exist. The words differ between shells; the dynamic linker's
/// failures have the same exit code.
fn is_missing(message: &str) -> bool {
    let phrases = ["not found", "No such file or directory"];
    phrases.iter().any(|words| message.ends_with(words)) && !message.contains("shared libraries")
}

fn spawn<S: AsRef<OsStr>>(
    tools: &DiskTools,
    verb: &str,
    arguments: &[S],
) -> Result<Child, DiskImageError> {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", LIMITS_SCRIPT, "sh"]);
    command.arg((tools.memory_limit / 1024).to_string());
    command.arg(tools.cpu_limit.as_secs().max(1).to_string());
    command
        .arg(&tools.qemu_img)
        .arg(verb)
        .args(arguments)
        .env("LC_ALL", "C");
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
        .kill_on_drop(true)
        .spawn()
        .map_err(|source| DiskImageError::Spawn {
            program: "/bin/sh".into(),
            source,
        })
}

async fn read(stream: Option<impl AsyncRead + Unpin>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let Some(stream) = stream else {
        return Ok(bytes);
    };
    stream
        .take(MAX_OUTPUT_BYTES + 1)
        .read_to_end(&mut bytes)
        .await?;
    if bytes.len() as u64 > MAX_OUTPUT_BYTES {
        return Err(io::Error::other("it prints more than a mebibyte"));
    }
    Ok(bytes)
}

/// The virtual size in bytes; `None` when the file has no qcow2 header.
pub(super) fn qcow2_size(path: &Path) -> io::Result<Option<u64>> {
    const MAGIC: &[u8; 4] = b"QFI\xfb";
    let mut header = Vec::with_capacity(32);
    open_image(path)?.take(32).read_to_end(&mut header)?;
    let size = header.get(24..32).and_then(|bytes| bytes.try_into().ok());
    Ok(size
        .filter(|_| header.starts_with(MAGIC))
        .map(u64::from_be_bytes))
}

/// How long renaming or removing a file, or changing its owner, may take.
pub(super) const FILE_OPERATION_TIMEOUT: Duration = Duration::from_secs(10);

/// A pending file. If it is dropped, it is removed on another thread.
pub(super) struct PendingImage {
    path: PathBuf,
    file: Option<PendingFile>,
}

impl PendingImage {
    /// Reserves a temporary name for `target`, and creates its directory.
    pub(super) async fn create(target: PathBuf) -> Result<PendingImage, DiskImageError> {
        let create = move || {
            atomic_file::create_parent(&target)?;
            Ok::<_, AtomicFileError>(PendingFile::new(&target))
        };
        let file =
            blocking::file_call("beginning an image", FILE_OPERATION_TIMEOUT, create).await??;
        Ok(PendingImage {
            path: file.path().to_owned(),
            file: Some(file),
        })
    }

    /// The temporary path, to write to.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Renames the complete file to its target.
    pub(super) async fn commit(mut self, attrs: FileAttrs) -> Result<(), DiskImageError> {
        let file = self.file.take();
        let commit = move || file.map_or(Ok(()), |file| file.commit(attrs));
        Ok(
            blocking::file_call("putting an image in place", FILE_OPERATION_TIMEOUT, commit)
                .await??,
        )
    }

    /// Removes the file without waiting for the drop.
    pub(super) async fn discard(mut self) -> Result<(), DiskImageError> {
        let file = self.file.take();
        let discard = move || drop(file);
        Ok(blocking::file_call(
            "removing a temporary image",
            FILE_OPERATION_TIMEOUT,
            discard,
        )
        .await?)
    }
}

impl Drop for PendingImage {
    fn drop(&mut self) {
        // Without a runtime there is no async worker to keep from blocking.
        if let (Some(file), Ok(runtime)) = (self.file.take(), Handle::try_current()) {
            runtime.spawn_blocking(move || drop(file));
        }
    }
}

/// The path and attributes of a qcow2 image that a disk needs.
pub(super) struct Qcow2Image {
    path: PathBuf,
    attrs: FileAttrs,
}

/// An image that is not complete yet, under a temporary name.
pub(super) struct PendingQcow2Image {
    path: PathBuf,
    file: PendingImage,
    attrs: FileAttrs,
}

impl Qcow2Image {
    pub(super) fn new(path: &str, mode: u32) -> Self {
        Self {
            path: path.into(),
            attrs: FileAttrs {
                mode,
                durable: true,
            },
        }
    }

    /// Creates the image, unless it exists: `qemu-img create` under a temporary name, then owner and mode, then the
    /// rename.
    pub(super) async fn create(
        &self,
        options: &[OsString],
        size: &[OsString],
        tools: &DiskTools,
    ) -> Result<(), DiskImageError> {
        let Some(pending) = self.start(tools).await? else {
            return Ok(());
        };
        pending.run_create(options, size, tools).await?;
        pending.commit().await
    }

    /// Reserves a temporary name for the image; `None` when the image exists already.
    pub(super) async fn start(
        &self,
        tools: &DiskTools,
    ) -> Result<Option<PendingQcow2Image>, DiskImageError> {
        let path = self.path.clone();
        if is_present(&path, tools).await? {
            let chown = move || {
                atomic_file::remove_stale(&path);
                atomic_file::chown_to_qemu(&path)
            };
            blocking::file_call("giving away an image", FILE_OPERATION_TIMEOUT, chown).await??;
            return Ok(None);
        }
        Ok(Some(PendingQcow2Image {
            file: PendingImage::create(path).await?,
            path: self.path.clone(),
            attrs: self.attrs,
        }))
    }
}

impl PendingQcow2Image {
    /// The temporary path.
    pub(super) fn path(&self) -> &Path {
        self.file.path()
    }

    /// Runs `qemu-img create` with the temporary path.
    pub(super) async fn run_create(
        &self,
        options: &[OsString],
        size: &[OsString],
        tools: &DiskTools,
    ) -> Result<(), DiskImageError> {
        let mut arguments: Vec<&OsStr> = vec!["-q".as_ref(), "-f".as_ref(), "qcow2".as_ref()];
        arguments.extend(options.iter().map(OsString::as_os_str));
        arguments.push(self.path().as_os_str());
        arguments.extend(size.iter().map(OsString::as_os_str));
        run(tools, "create", &self.path, &arguments).await?;
        Ok(())
    }

    /// Gives the complete image its name.
    pub(super) async fn commit(self) -> Result<(), DiskImageError> {
        self.file.commit(self.attrs).await
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn dropped_file_is_removed_off_the_async_worker() {
        let directory = tempfile::tempdir().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let image = directory.path().join("disks/disk.img");
        let pending = runtime.block_on(PendingImage::create(image)).unwrap();
        let path = pending.path().to_owned();
        fs::write(&path, "cut short").unwrap();
        runtime.block_on(async { drop(pending) });
        // Waits for the threads for blocking work.
        drop(runtime);
        assert!(!path.exists());
    }
}
