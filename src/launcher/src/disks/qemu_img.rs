//! One run of qemu-img.

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::process::Stdio;

use rustix::process::{Pid, Resource, Rlimit, prlimit};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::{DiskError, DiskTools};

/// The most that is read of what it prints, in bytes.
const MAX_OUTPUT: u64 = 1024 * 1024;

/// Runs qemu-img with `verb` and `arguments`; gives what it prints. `image` is what errors name.
/// The child dies with this future.
pub(super) async fn run<S: AsRef<OsStr>>(
    tools: &DiskTools,
    verb: &'static str,
    image: &Path,
    arguments: &[S],
) -> Result<Vec<u8>, DiskError> {
    let mut child = spawn(tools, verb, arguments)?;
    let run = |source| DiskError::Run {
        program: tools.qemu_img.clone(),
        source,
    };
    limit(&child, tools).map_err(run)?;
    let (output, errors) = (child.stdout.take(), child.stderr.take());
    let all = async { tokio::try_join!(read(output), read(errors), child.wait()) };
    let (output, errors, status) = timeout(tools.deadline, all)
        .await
        .map_err(|_| DiskError::Deadline {
            what: "running qemu-img on",
            image: image.to_owned(),
            deadline: tools.deadline,
        })?
        .map_err(run)?;
    if status.success() {
        return Ok(output);
    }
    Err(DiskError::QemuImg {
        verb,
        image: image.to_owned(),
        status: status.to_string(),
        message: String::from_utf8_lossy(&errors).trim().to_owned(),
    })
}

fn spawn<S: AsRef<OsStr>>(
    tools: &DiskTools,
    verb: &str,
    arguments: &[S],
) -> Result<Child, DiskError> {
    let mut command = Command::new(&tools.qemu_img);
    command.arg(verb).args(arguments).env("LC_ALL", "C");
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
        .kill_on_drop(true)
        .spawn()
        .map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => DiskError::NoQemuImg {
                program: tools.qemu_img.clone(),
            },
            _ => DiskError::Run {
                program: tools.qemu_img.clone(),
                source,
            },
        })
}

/// Limits the child from outside: it has only just been executed, and both limits count what it has
/// used before. One that has ended already needs none.
fn limit(child: &Child, tools: &DiskTools) -> io::Result<()> {
    let Some(pid) = child.id().and_then(|id| Pid::from_raw(id.cast_signed())) else {
        return Ok(());
    };
    let set = |resource, most: u64| {
        let limit = Rlimit {
            current: Some(most),
            maximum: Some(most),
        };
        match prlimit(Some(pid), resource, limit) {
            Ok(_) | Err(rustix::io::Errno::SRCH) => Ok(()),
            Err(error) => Err(io::Error::from(error)),
        }
    };
    set(Resource::As, tools.memory_limit)?;
    set(Resource::Cpu, tools.cpu_limit.as_secs().max(1))?;
    set(Resource::Core, 0)
}

async fn read(stream: Option<impl AsyncRead + Unpin>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let Some(stream) = stream else {
        return Ok(bytes);
    };
    stream.take(MAX_OUTPUT + 1).read_to_end(&mut bytes).await?;
    if bytes.len() as u64 > MAX_OUTPUT {
        return Err(io::Error::other("it prints more than a mebibyte"));
    }
    Ok(bytes)
}
