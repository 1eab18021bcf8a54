//! Waits for a daemon's socket to accept connections.

use std::path::Path;
use std::time::Duration;

use tokio::net::UnixStream;
use tokio::time::{Instant, sleep};

use super::error::DaemonError;
use super::supervised_daemon::SupervisedDaemon;

// A daemon takes about 60 ms. Frequent checks cost little, and the launcher's start waits for this.
const MIN_POLL_INTERVAL: Duration = Duration::from_millis(2);
const MAX_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Returns when connections to `socket` are accepted. The file alone is not enough: a dead daemon may have left it.
pub(super) async fn wait_for_socket(
    daemon: &SupervisedDaemon,
    socket: &Path,
    within: Duration,
) -> Result<(), DaemonError> {
    let start = Instant::now();
    let mut pause = MIN_POLL_INTERVAL;
    loop {
        if UnixStream::connect(socket).await.is_ok() {
            return Ok(());
        }
        if let Some(status) = daemon.ended_twice() {
            return Err(DaemonError::Ended {
                program: daemon.program().to_owned(),
                status,
                socket: socket.to_owned(),
                last_log_lines: daemon.last_log_lines(),
            });
        }
        let waited = start.elapsed();
        if waited >= within {
            return Err(DaemonError::NotReady {
                program: daemon.program().to_owned(),
                socket: socket.to_owned(),
                waited,
                last_log_lines: daemon.last_log_lines(),
            });
        }
        sleep(pause).await;
        pause = (pause * 3 / 2).min(MAX_POLL_INTERVAL);
    }
}
