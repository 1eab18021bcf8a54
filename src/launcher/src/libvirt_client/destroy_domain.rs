//! Ends the domain even while other calls to libvirt hang.
//!
//! ```text
//!   SIGTERM by libvirt ────────────────────────┬──12 s after the begin──▶ SIGKILL by pidfd ──▶ QEMU is gone
//!   the daemon hangs ──1 s──▶ SIGTERM by pidfd ┘
//! ```
//! After SIGTERM, QEMU writes its caches and the bitmaps of changed blocks back, and the TPM its state; SIGKILL loses
//! what is not written. So it comes as late as it may: virt-handler waits 20 s for the answer, and the kubelet kills
//! the pod 15 s after the grace period, at whose end virt-handler or the launcher kills the VM.
//!
//! The calls have their own connection and threads: the daemon handles only a limited number of requests of one
//! connection at a time, and queries that hang would keep it from handling these.

use std::sync::Arc;
use std::time::Duration;

use libvirt::{DestroyMode, Domain};
use rustix::process::Signal;
use tokio::runtime::Handle;
use tokio::time::Instant;

use super::call_class::ENDING;
use super::{CallError, Client};
use crate::qemu_process::QemuProcess;

/// A daemon that takes longer than this to return the domain's state counts as hung.
const STATE_QUERY_TIMEOUT: Duration = Duration::from_secs(1);
/// How long finding QEMU's process may take, which reads two small files.
const PROCESS_LOOKUP_TIMEOUT: Duration = Duration::from_secs(1);
/// How long QEMU may take to end by SIGTERM, with the two queries before that. libvirt waits 15 s.
const SIGTERM_TIMEOUT: Duration = Duration::from_secs(12);
/// How long libvirt may take to end a QEMU whose process is not found. It sends SIGKILL 10 s after SIGTERM.
const FORCEFUL_TIMEOUT: Duration = Duration::from_secs(14);
/// How long a process may take to end after SIGKILL. It takes longer only if it waits for storage.
const SIGKILL_TIMEOUT: Duration = Duration::from_secs(2);
/// How long the check takes whether a process has ended.
const EXIT_CHECK_TIMEOUT: Duration = Duration::from_millis(100);
/// How long libvirt may take to notice that QEMU has ended.
const LIBVIRT_NOTICE_TIMEOUT: Duration = Duration::from_secs(2);
const LIBVIRT_NOTICE_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// How a domain has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum DomainEnd {
    /// It did not exist, or did not run.
    WasDown,
    /// QEMU has ended by SIGTERM.
    Terminated,
    /// QEMU did not end in time, and has ended by SIGKILL.
    Killed,
}

impl Client {
    /// Ends QEMU within 16 s. On success the process is gone. An error if this cannot be determined, neither by libvirt
    /// nor by the process: a daemon that hangs may be starting QEMU.
    pub(crate) async fn destroy(&self) -> Result<DomainEnd, CallError> {
        let kill_at = Instant::now() + SIGTERM_TIMEOUT;
        let process = self.process().await;
        let is_down = |domain: &dyn Domain| Ok(domain.state()?.is_down());
        let class = ENDING.within(STATE_QUERY_TIMEOUT);
        let is_down = self.end_within("asking whether the domain runs", class, is_down);
        let Some(process) = process else {
            return match is_down.await {
                Ok(None | Some(true)) => Ok(DomainEnd::WasDown),
                Err(error @ CallError::NoAnswer(_)) => Err(error),
                _ => self
                    .destroy_within(FORCEFUL_TIMEOUT, DestroyMode::Forceful)
                    .await
                    .map(|()| DomainEnd::Terminated),
            };
        };
        let libvirt_result = match is_down.await {
            // libvirt is starting this QEMU, or has given it up.
            Ok(None | Some(true)) => Ok(()),
            Err(error @ CallError::NoAnswer(_)) => {
                tracing::warn!(reason = %error, "libvirt's daemon hangs, sending SIGTERM to QEMU");
                Err(error)
            }
            _ => {
                let left = kill_at.saturating_duration_since(Instant::now());
                self.destroy_within(left, DestroyMode::Graceful).await
            }
        };
        if terminate(&process, kill_at).await {
            return Ok(DomainEnd::Terminated);
        }
        self.kill(&process, libvirt_result)
            .await
            .map(|()| DomainEnd::Killed)
    }

    /// The domain's QEMU process, if it runs. Not on an async worker, since `/proc` may hang for a process that waits
    /// for storage.
    async fn process(&self) -> Option<QemuProcess> {
        let (inner, runtime) = (Arc::clone(&self.0), Handle::current());
        let open = move || {
            // `QemuProcess` registers a pidfd with the runtime.
            let _runtime = runtime.enter();
            let process = QemuProcess::open(&inner.pid_file).ok();
            process.filter(|process| process.is_qemu_of_domain(&inner.domain_name))
        };
        let lane = self.0.lanes.process();
        match lane
            .call("looking for QEMU", PROCESS_LOOKUP_TIMEOUT, open)
            .await
        {
            Ok(process) => process,
            Err(error) => {
                tracing::warn!(reason = %error, "only libvirt can end QEMU");
                None
            }
        }
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

    /// Sends SIGKILL, the last resort. `libvirt_result` is the result of destroying the domain by libvirt; its error is
    /// returned if the process does not end.
    async fn kill(
        &self,
        process: &QemuProcess,
        libvirt_result: Result<(), CallError>,
    ) -> Result<(), CallError> {
        tracing::warn!(
            pid = process.pid(),
            "QEMU has not ended by SIGTERM, sending SIGKILL"
        );
        if let Err(error) = process.signal(Signal::KILL) {
            tracing::debug!(reason = %error, "sending SIGKILL to QEMU");
        }
        if !process.exits_within(SIGKILL_TIMEOUT).await {
            libvirt_result?;
            return Err(CallError::NotEnded { pid: process.pid() });
        }
        self.invalidate();
        // A delete that follows needs libvirt to have noticed the end. A hung daemon does not notice it in time.
        let _ = tokio::time::timeout(
            LIBVIRT_NOTICE_TIMEOUT,
            self.wait_until_libvirt_sees_the_end(),
        )
        .await;
        Ok(())
    }

    /// Returns when libvirt reports that the domain does not run.
    async fn wait_until_libvirt_sees_the_end(&self) {
        const WHAT: &str = "asking whether the domain has ended";
        let is_down = |domain: &dyn Domain| Ok(domain.state()?.is_down());
        let class = ENDING.within(STATE_QUERY_TIMEOUT);
        while let Ok(Some(false)) = self.end_within(WHAT, class, is_down).await {
            tokio::time::sleep(LIBVIRT_NOTICE_POLL_INTERVAL).await;
        }
    }
}

/// Sends SIGTERM, which libvirt may have sent before. Returns whether QEMU has ended in time.
async fn terminate(process: &QemuProcess, kill_at: Instant) -> bool {
    // It fails if the process has ended.
    if let Err(error) = process.signal(Signal::TERM) {
        tracing::debug!(reason = %error, "sending SIGTERM to QEMU");
    }
    let left = kill_at.saturating_duration_since(Instant::now());
    // After its whole time in libvirt's call, QEMU gets a moment to be seen as ended.
    process.exits_within(left.max(EXIT_CHECK_TIMEOUT)).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn end_of_the_domain_is_answered_before_virt_handler_gives_up() {
        const VIRT_HANDLER_WAITS: Duration = Duration::from_secs(20);
        const JOB_END: Duration = Duration::from_secs(2);
        let with_process = SIGTERM_TIMEOUT + SIGKILL_TIMEOUT + LIBVIRT_NOTICE_TIMEOUT;
        let without_process = PROCESS_LOOKUP_TIMEOUT + STATE_QUERY_TIMEOUT + FORCEFUL_TIMEOUT;
        for most in [with_process, without_process] {
            assert!(most + JOB_END < VIRT_HANDLER_WAITS, "{most:?}");
        }
    }
}
