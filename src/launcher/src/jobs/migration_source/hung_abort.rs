//! Handles an abort that libvirt has accepted but that does not end the migration.
//!
//! QEMU 10.0 can deadlock when a migration with local disks is aborted as its transfer begins: the source waits for the
//! target's NBD server, whose thread waits for the first bytes of the source's next channel. The guest is stopped until
//! one of the two processes ends. The guest is still on the source and not in the target's QEMU, so the target's QEMU
//! can be killed.
//!
//! ```text
//!   source            target's domain        what is tried
//!   runs              waits for the guest    the target's domain is destroyed
//!   runs              does not exist         nothing: the guest runs here, and libvirt's call does not end
//!   runs              has the guest          nothing
//!   paused to switch  (not asked)            nothing: the guest may be about to run on the target
//! ```
//! The guest is not suspended meanwhile, because libvirt would allow to resume it only after its call.

use std::sync::Arc;
use std::time::Duration;

use libvirt::{DestroyMode, Domain};
use tokio::time::Instant;

use super::blocking_query::BlockingQuery;
use super::guest_location_query::Target;
use super::monitor_calls;
use crate::libvirt_client::ConnectTarget;

/// How long to wait before the first attempt to end the migration, and between two attempts. A normal abort takes less
/// than a second.
const ATTEMPT_DELAY: Duration = Duration::from_secs(10);
/// Timeout of destroying the target's domain. libvirt waits up to 15 s for a QEMU that does not react to SIGTERM,
/// before and after SIGKILL.
const DESTROY_TIMEOUT: Duration = Duration::from_secs(20);

/// Watches an abort, and tries to end the migration if the abort takes too long.
#[derive(Default)]
pub(super) struct HungAbortWatch {
    /// When the next attempt is due.
    next_attempt: Option<Instant>,
    target: BlockingQuery<libvirt::Result<TargetDomain>>,
}

/// The result of an attempt to end the migration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AttemptResult {
    /// The attempt may have ended the migration.
    Made,
    /// Nothing can be done now.
    Impossible,
}

/// The state of the domain on the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TargetDomain {
    /// The domain waited for the guest, and was destroyed.
    Ended,
    Absent,
    /// The domain does not wait for the guest, so it may have the guest.
    HasGuest,
}

impl HungAbortWatch {
    /// Starts to wait for the end, after libvirt was asked to abort or an attempt was made.
    pub(super) fn begin(&mut self) {
        self.next_attempt = Some(Instant::now() + ATTEMPT_DELAY);
    }

    /// Whether the abort has taken too long, so that an attempt is due.
    pub(super) fn is_late(&self) -> bool {
        self.next_attempt.is_some_and(|due| due <= Instant::now())
    }

    /// Tries to end the migration, as in the table above.
    pub(super) async fn attempt(
        &mut self,
        source: &Arc<dyn Domain>,
        connect: &ConnectTarget,
        target: Target,
    ) -> AttemptResult {
        let state = match monitor_calls::state(source).await {
            Ok(state) => state,
            Err(error) => {
                tracing::error!(reason = %error, "the migration was aborted and does not end; libvirt does not tell the guest's state");
                return AttemptResult::Impossible;
            }
        };
        if !state.is_active() {
            return AttemptResult::Made;
        }
        if state.may_run_on_target() {
            tracing::error!(
                "the migration was aborted and does not end, and the guest is stopped for its switch to the target: \
                 nothing is done about it, since the guest may be about to run there"
            );
            return AttemptResult::Impossible;
        }
        let connect = Arc::clone(connect);
        let destroy = || move || destroy_waiting_domain(&connect, &target);
        match self.target.run(DESTROY_TIMEOUT, destroy).await {
            Some(Ok(TargetDomain::Ended)) => {
                tracing::warn!(
                    "the migration was aborted and did not end: the domain that waits on the target is ended"
                );
                AttemptResult::Made
            }
            Some(Ok(TargetDomain::Absent)) => {
                tracing::error!(
                    "the migration was aborted and libvirt's call does not end; the guest runs on here"
                );
                AttemptResult::Impossible
            }
            Some(Ok(TargetDomain::HasGuest)) => {
                tracing::error!(
                    "the migration was aborted and does not end, and the target's domain does not wait for the guest"
                );
                AttemptResult::Impossible
            }
            Some(Err(error)) => {
                tracing::error!(reason = %error, "the migration was aborted and does not end; the domain that waits on the target is not ended");
                AttemptResult::Impossible
            }
            None => {
                tracing::error!(
                    "the migration was aborted and does not end; the target does not answer"
                );
                AttemptResult::Impossible
            }
        }
    }
}

/// Destroys the target's domain if it waits for its guest. Blocking.
fn destroy_waiting_domain(
    connect: &ConnectTarget,
    target: &Target,
) -> libvirt::Result<TargetDomain> {
    let Some(domain) = connect(&target.uri)?.lookup(&target.domain)? else {
        return Ok(TargetDomain::Absent);
    };
    let state = domain.state()?;
    if !state.is_active() {
        return Ok(TargetDomain::Absent);
    }
    if !state.is_before_arrival() {
        return Ok(TargetDomain::HasGuest);
    }
    domain.destroy(DestroyMode::Forceful)?;
    Ok(TargetDomain::Ended)
}
