//! Continues the logs of a running QEMU when virtlogd ends.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::broken_qemu_log_pipes::{self, BrokenPipe};
use super::rotating_file::RotatingFileWriter;
use crate::paths::Paths;

/// The pauses before the checks for pipes without a reader. A QEMU that was starting when virtlogd ended has its pipes
/// only a little later.
const CHECK_DELAYS: [Duration; 4] = [
    Duration::ZERO,
    Duration::from_millis(500),
    Duration::from_secs(2),
    Duration::from_secs(5),
];

/// The files of one domain's QEMU.
#[derive(Debug, Clone)]
pub(super) struct QemuLogs {
    pid_file: PathBuf,
    /// The log of the guest's serial console.
    serial: PathBuf,
    /// The log of QEMU's own messages.
    messages: PathBuf,
}

impl QemuLogs {
    pub(super) fn new(paths: &Paths, domain: &str) -> QemuLogs {
        QemuLogs {
            pid_file: paths.qemu_pid_file(domain),
            serial: paths.vmi_private().join("virt-serial0-log"),
            messages: paths.qemu_log(domain),
        }
    }
}

/// A log could not be continued.
#[derive(Debug, thiserror::Error)]
#[error(
    "virtlogd ended, and the serial console's log of the running VM ends with it: {reason}; the VM \
     and its console are not affected, a restart of the VM brings the log back"
)]
struct LostLog {
    reason: String,
}

/// Continues the logs after each end of virtlogd, which is a change of `ends`. A log that cannot be continued is
/// reported through `lost`. Runs until the daemons end.
pub(super) async fn run(
    logs: QemuLogs,
    mut ends: watch::Receiver<u64>,
    lost: watch::Sender<Option<String>>,
) {
    let mut copies = JoinSet::new();
    while ends.changed().await.is_ok() {
        for pause in CHECK_DELAYS {
            sleep(pause).await;
            while copies.try_join_next().is_some() {}
            if let Err(error) = continue_logs(&logs, &mut copies) {
                let message = error.to_string();
                tracing::warn!("{message}");
                let _ = lost.send(Some(message));
                break;
            }
        }
    }
}

fn continue_logs(logs: &QemuLogs, copies: &mut JoinSet<()>) -> Result<(), LostLog> {
    let Some(process) = qemu_process_directory(logs) else {
        return Ok(());
    };
    let pipes = match broken_qemu_log_pipes::broken_pipes(&process) {
        Ok(pipes) => pipes,
        // QEMU has ended meanwhile.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(lost_log(&process, &error)),
    };
    let (messages, serial): (Vec<_>, Vec<_>) = pipes.into_iter().partition(|pipe| pipe.stderr);
    for pipe in messages {
        start_copy(&pipe, &logs.messages, copies).map_err(|error| lost_log(&process, &error))?;
    }
    match serial.as_slice() {
        [] => Ok(()),
        [pipe] => {
            start_copy(pipe, &logs.serial, copies).map_err(|error| lost_log(&process, &error))?;
            tracing::info!(path = %logs.serial.display(), "the launcher continues the serial console's log");
            Ok(())
        }
        several => Err(LostLog {
            reason: format!(
                "QEMU has {} logs whose files cannot be distinguished",
                several.len()
            ),
        }),
    }
}

fn start_copy(
    pipe: &BrokenPipe,
    file: &std::path::Path,
    copies: &mut JoinSet<()>,
) -> io::Result<()> {
    copies.spawn(broken_qemu_log_pipes::copy_to_file(
        pipe.reopen()?,
        RotatingFileWriter::new(file),
    ));
    Ok(())
}

/// QEMU's directory in `/proc`.
fn qemu_process_directory(logs: &QemuLogs) -> Option<PathBuf> {
    let text = fs::read_to_string(&logs.pid_file).ok()?;
    let pid: u32 = text.trim().parse().ok()?;
    Some(PathBuf::from(format!("/proc/{pid}")))
}

fn lost_log(process: &std::path::Path, error: &io::Error) -> LostLog {
    LostLog {
        reason: format!("{}: {error}", process.join("fd").display()),
    }
}
