//! Ends the domain even while other calls to libvirt hang.
//!
//! ```text
//!   SIGTERM by libvirt ──5 s──▶ SIGKILL by libvirt ──1 s──▶ SIGKILL by pidfd ──▶ QEMU is gone
//!   the daemon hangs ──1 s──▶ SIGTERM by pidfd ──1.5 s──────▲
//! ```
//! The calls have a connection and threads of their own: the daemon reads only a limited number of requests of one
//! connection at a time, and queries that hang would keep it from reading this one.

use std::sync::Arc;
use std::time::Duration;

use libvirt::{DestroyMode, Domain};
use rustix::process::Signal;
use tokio::runtime::Handle;

use super::call_class::ENDING;
use super::{CallError, Client};
use crate::qemu_process::QemuProcess;

/// A daemon that takes longer to return the domain's state counts as hung.
const ANSWER: Duration = Duration::from_secs(1);
/// Finding QEMU's process reads two small files.
const PROCESS: Duration = Duration::from_secs(1);
/// When the daemon hangs, QEMU has this long to end by SIGTERM.
const TERMINATED: Duration = Duration::from_millis(1500);
/// QEMU has this long to write back its caches and end by SIGTERM.
const GRACEFUL: Duration = Duration::from_secs(5);
/// libvirt itself sends SIGTERM again and waits before it sends SIGKILL.
const FORCEFUL: Duration = Duration::from_secs(1);
/// After SIGKILL a process ends within this time, unless it waits for storage.
const KILLED: Duration = Duration::from_secs(2);
/// libvirt has this long to notice that QEMU has ended.
const NOTICED: Duration = Duration::from_secs(2);
const NOTICE_POLL: Duration = Duration::from_millis(20);

impl Client {
    /// Ends QEMU; success means that the process is gone. False when the domain does not exist or does not run. An
    /// error when neither libvirt nor the process tells: a start may be under way in a daemon that hangs.
    pub async fn destroy(&self) -> Result<bool, CallError> {
        let process = self.process().await;
        let is_down = |domain: &dyn Domain| Ok(domain.state()?.is_down());
        let class = ENDING.within(ANSWER);
        let is_down = self.end_within("asking whether the domain runs", class, is_down);
        let Some(process) = process else {
            return match is_down.await {
                Ok(None | Some(true)) => Ok(false),
                Err(error @ CallError::NoAnswer(_)) => Err(error),
                _ => self
                    .destroy_by_libvirt(ENDING.deadline)
                    .await
                    .map(|()| true),
            };
        };
        let asked = match is_down.await {
            Ok(None | Some(true)) => Ok(()),
            Err(error @ CallError::NoAnswer(_)) => {
                tracing::warn!(reason = %error, "libvirt's daemon hangs, sending SIGTERM to QEMU");
                if process.signal(Signal::TERM).is_ok() && process.exits_within(TERMINATED).await {
                    return Ok(true);
                }
                Err(error)
            }
            _ => self.destroy_by_libvirt(FORCEFUL).await,
        };
        if asked.is_ok() && process.exits_within(NOTICED).await {
            return Ok(true);
        }
        self.kill(&process, asked).await.map(|()| true)
    }

    /// The domain's QEMU, if it runs. Reading about a process hangs when that waits for storage.
    async fn process(&self) -> Option<QemuProcess> {
        let (inner, runtime) = (Arc::clone(&self.0), Handle::current());
        let open = move || {
            // The process is registered with the runtime.
            let _runtime = runtime.enter();
            let process = QemuProcess::open(&inner.pid_file).ok();
            process.filter(|process| process.is_qemu_of_domain(&inner.domain_name))
        };
        let lane = self.0.lanes.process();
        match lane.call("looking for QEMU", PROCESS, open).await {
            Ok(process) => process,
            Err(error) => {
                tracing::warn!(reason = %error, "only libvirt can end QEMU");
                None
            }
        }
    }

    async fn destroy_by_libvirt(&self, forceful: Duration) -> Result<(), CallError> {
        let Err(error) = self.destroy_within(GRACEFUL, DestroyMode::Graceful).await else {
            return Ok(());
        };
        tracing::warn!(reason = %error, "QEMU did not end by SIGTERM, killing it");
        self.destroy_within(forceful, DestroyMode::Forceful).await
    }

    async fn destroy_within(&self, deadline: Duration, how: DestroyMode) -> Result<(), CallError> {
        let destroy = move |domain: &dyn Domain| match domain.state()?.is_down() {
            true => Ok(()),
            false => match domain.destroy(how) {
                Err(error) if error.is_operation_invalid() => Ok(()),
                result => result,
            },
        };
        let class = ENDING.within(deadline);
        let ended = self.end_within("ending the domain", class, destroy);
        ended.await.map(drop)
    }

    /// The last resort.
    async fn kill(
        &self,
        process: &QemuProcess,
        asked: Result<(), CallError>,
    ) -> Result<(), CallError> {
        tracing::warn!(
            pid = process.pid(),
            "libvirt has not ended QEMU, sending SIGKILL"
        );
        if let Err(error) = process.signal(Signal::KILL) {
            tracing::debug!(reason = %error, "sending SIGKILL to QEMU");
        }
        if !process.exits_within(KILLED).await {
            asked?;
            return Err(CallError::NotEnded { pid: process.pid() });
        }
        self.invalidate();
        // Wait until libvirt has noticed the end, for a delete that follows. A hung daemon does not notice.
        let _ = tokio::time::timeout(NOTICED, self.noticed()).await;
        Ok(())
    }

    async fn noticed(&self) {
        const WHAT: &str = "asking whether the domain has ended";
        let is_down = |domain: &dyn Domain| Ok(domain.state()?.is_down());
        let class = ENDING.within(ANSWER);
        while let Ok(Some(false)) = self.end_within(WHAT, class, is_down).await {
            tokio::time::sleep(NOTICE_POLL).await;
        }
    }
}
