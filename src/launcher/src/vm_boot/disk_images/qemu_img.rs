//! Runs qemu-img with limits of memory and time.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::DiskImageError;

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
