//! Ends the domain even while other calls to libvirt hang.
//!
//! ```text
//!   SIGTERM by libvirt ──5 s──▶ SIGKILL by libvirt ──1 s──▶ SIGKILL by pidfd ──▶ QEMU is gone
//!   the daemon hangs ──1 s──▶ SIGTERM by pidfd ──1.5 s──────▲
//! ```
//! The calls have their own connection and threads: the daemon handles only a limited number of requests of one
//! connection at a time, and queries that hang would keep it from handling these.

use std::sync::Arc;
use std::time::Duration;

use libvirt::{DestroyMode, Domain};
use rustix::process::Signal;
use tokio::runtime::Handle;

use super::call_class::ENDING;
use super::{CallError, Client};
use crate::qemu_process::QemuProcess;

/// A daemon that takes longer than this to return the domain's state counts as hung.
const STATE_QUERY_TIMEOUT: Duration = Duration::from_secs(1);
/// How long finding QEMU's process may take, which reads two small files.
const PROCESS_LOOKUP_TIMEOUT: Duration = Duration::from_secs(1);
/// How long QEMU may take to end after the launcher's own SIGTERM, when the daemon hangs.
const SIGTERM_TIMEOUT: Duration = Duration::from_millis(1500);
/// How long QEMU may take to write back its caches and end after libvirt's SIGTERM.
const GRACEFUL_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a forceful destroy may take: libvirt sends SIGTERM again, and waits before it sends SIGKILL.
const FORCEFUL_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a process may take to end after SIGKILL. It takes longer only if it waits for storage.
const SIGKILL_TIMEOUT: Duration = Duration::from_secs(2);
/// How long libvirt may take to notice that QEMU has ended.
const LIBVIRT_NOTICE_TIMEOUT: Duration = Duration::from_secs(2);
const LIBVIRT_NOTICE_POLL_INTERVAL: Duration = Duration::from_millis(20);

impl Client {
    /// Ends QEMU. On success the process is gone: true if it was ended, false if the domain did not exist or did not
    /// run. An error if this cannot be determined, neither by libvirt nor by the process: a daemon that hangs may be
    /// starting QEMU.
    pub async fn destroy(&self) -> Result<bool, CallError> {
        let process = self.process().await;
        let is_down = |domain: &dyn Domain| Ok(domain.state()?.is_down());
        let class = ENDING.within(STATE_QUERY_TIMEOUT);
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
        let libvirt_result = match is_down.await {
            Ok(None | Some(true)) => Ok(()),
            Err(error @ CallError::NoAnswer(_)) => {
                tracing::warn!(reason = %error, "libvirt's daemon hangs, sending SIGTERM to QEMU");
                if process.signal(Signal::TERM).is_ok()
                    && process.exits_within(SIGTERM_TIMEOUT).await
                {
                    return Ok(true);
                }
                Err(error)
            }
            _ => self.destroy_by_libvirt(FORCEFUL_TIMEOUT).await,
        };
        if libvirt_result.is_ok() && process.exits_within(LIBVIRT_NOTICE_TIMEOUT).await {
            return Ok(true);
        }
        self.kill(&process, libvirt_result).await.map(|()| true)
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

    async fn destroy_by_libvirt(&self, forceful: Duration) -> Result<(), CallError> {
        let Err(error) = self
            .destroy_within(GRACEFUL_TIMEOUT, DestroyMode::Graceful)
            .await
        else {
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

    /// Sends SIGKILL, the last resort. `libvirt_result` is the result of destroying the domain by libvirt; its error is
    /// returned if the process does not end.
    async fn kill(
        &self,
        process: &QemuProcess,
        libvirt_result: Result<(), CallError>,
    ) -> Result<(), CallError> {
        tracing::warn!(
            pid = process.pid(),
            "libvirt has not ended QEMU, sending SIGKILL"
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
