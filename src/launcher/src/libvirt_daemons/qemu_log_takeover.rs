//! Takes over the logs of a running QEMU when virtlogd ends.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::reopen_qemu_log_pipes::{self, BrokenPipe};
use super::rotating_file::RotatingFileWriter;
use crate::paths::Paths;

/// A QEMU that was being started when virtlogd ended shows its pipes a little later.
const CHECKS: [Duration; 4] = [
    Duration::ZERO,
    Duration::from_millis(500),
    Duration::from_secs(2),
    Duration::from_secs(5),
];

/// The files of one domain.
#[derive(Debug, Clone)]
pub(super) struct QemuLogs {
    pid_file: PathBuf,
    /// What the guest writes to its serial console.
    serial: PathBuf,
    /// What QEMU itself says.
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

/// A log cannot be continued.
#[derive(Debug, thiserror::Error)]
#[error(
    "virtlogd ended, and the serial console's log of the running VM ends with it: {reason}; the VM \
     and its console are not affected, a restart of the VM brings the log back"
)]
struct LostLog {
    reason: String,
}

/// Runs until the daemons end. Each change of `ends` is an end of virtlogd; a log that cannot be
/// continued is reported through `lost`.
pub(super) async fn run(
    logs: QemuLogs,
    mut ends: watch::Receiver<u64>,
    lost: watch::Sender<Option<String>>,
) {
    let mut copies = JoinSet::new();
    while ends.changed().await.is_ok() {
        for pause in CHECKS {
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
    let Some(process) = process(logs) else {
        return Ok(());
    };
    let pipes = match reopen_qemu_log_pipes::broken(&process) {
        Ok(pipes) => pipes,
        // It ended meanwhile, and its logs with it.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(lost(&process, &error)),
    };
    let (messages, serial): (Vec<_>, Vec<_>) = pipes.into_iter().partition(|pipe| pipe.stderr);
    for pipe in messages {
        start(&pipe, &logs.messages, copies).map_err(|error| lost(&process, &error))?;
    }
    match serial.as_slice() {
        [] => Ok(()),
        [pipe] => {
            start(pipe, &logs.serial, copies).map_err(|error| lost(&process, &error))?;
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

fn start(pipe: &BrokenPipe, file: &std::path::Path, copies: &mut JoinSet<()>) -> io::Result<()> {
    copies.spawn(reopen_qemu_log_pipes::copy(
        pipe.reopen()?,
        RotatingFileWriter::new(file),
    ));
    Ok(())
}

/// QEMU's directory in `/proc`.
fn process(logs: &QemuLogs) -> Option<PathBuf> {
    let text = fs::read_to_string(&logs.pid_file).ok()?;
    let pid: u32 = text.trim().parse().ok()?;
    Some(PathBuf::from(format!("/proc/{pid}")))
}

fn lost(process: &std::path::Path, error: &io::Error) -> LostLog {
    LostLog {
        reason: format!("{}: {error}", process.join("fd").display()),
    }
}
