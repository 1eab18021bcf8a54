//! An abort that libvirt has accepted and that does not end the migration.
//!
//! QEMU 10.0 can deadlock when a migration with local disks is aborted as its transfer begins: the source waits for the
//! target's NBD server, whose thread waits for the first bytes of the source's next channel. The guest stands still until one
//! of both processes ends. The target's QEMU does not hold the guest, which is still on the source, so it
//! can be ended.
//!
//! ```text
//!   source            target's domain        what is tried
//!   runs              waits for the guest    the target's domain is ended
//!   runs              is not there           nothing: the guest runs here, and libvirt's call does not end
//!   runs              has the guest          nothing
//!   paused to switch  (not asked)            nothing: the guest may be about to run on the target
//! ```
//! A guest that is suspended now could not be resumed: libvirt allows that only after its call.

use std::sync::Arc;
use std::time::Duration;

use libvirt::{DestroyMode, Domain};
use tokio::time::Instant;

use super::blocking_query::BlockingQuery;
use super::guest_location_query::Target;
use super::monitor_actions;
use crate::libvirt_client::ConnectTarget;

/// An abort takes less than a second. This long before something is tried, and between two attempts.
const PATIENCE: Duration = Duration::from_secs(10);
/// libvirt waits up to 15 s for a QEMU that does not heed SIGTERM, before and after SIGKILL.
const DESTROY: Duration = Duration::from_secs(20);

/// Watches an abort, and acts if it takes too long.
#[derive(Default)]
pub(super) struct AbortWatch {
    next: Option<Instant>,
    target: BlockingQuery<libvirt::Result<TargetDomain>>,
}

/// What an attempt to end the migration has come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Attempt {
    /// Something was done that may help.
    Made,
    /// There is nothing that can be done now.
    Impossible,
}

/// The domain on the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TargetDomain {
    /// It waited for the guest, and was ended.
    Ended,
    Absent,
    /// It does not wait: the guest may be in it.
    HasGuest,
}

impl AbortWatch {
    /// libvirt was asked for an abort, or an attempt was made.
    pub(super) fn begin(&mut self) {
        self.next = Some(Instant::now() + PATIENCE);
    }

    /// Whether it takes too long by now.
    pub(super) fn is_late(&self) -> bool {
        self.next.is_some_and(|next| next <= Instant::now())
    }

    /// Tries to end the migration.
    pub(super) async fn attempt(
        &mut self,
        source: &Arc<dyn Domain>,
        connect: &ConnectTarget,
        target: Target,
    ) -> Attempt {
        let state = match monitor_actions::state(source).await {
            Ok(state) => state,
            Err(error) => {
                tracing::error!(reason = %error, "the migration was aborted and does not end; libvirt does not tell the guest's state");
                return Attempt::Impossible;
            }
        };
        if !state.is_active() {
            return Attempt::Made;
        }
        if state.may_run_on_target() {
            tracing::error!(
                "the migration was aborted and does not end, and the guest is stopped for its switch to the target: \
                 nothing is done about it, since the guest may be about to run there"
            );
            return Attempt::Impossible;
        }
        let connect = Arc::clone(connect);
        let end = || move || end_waiting(&connect, &target);
        match self.target.ask(DESTROY, end).await {
            Some(Ok(TargetDomain::Ended)) => {
                tracing::warn!(
                    "the migration was aborted and did not end: the domain that waits on the target is ended"
                );
                Attempt::Made
            }
            Some(Ok(TargetDomain::Absent)) => {
                tracing::error!(
                    "the migration was aborted and libvirt's call does not end; the guest runs on here"
                );
                Attempt::Impossible
            }
            Some(Ok(TargetDomain::HasGuest)) => {
                tracing::error!(
                    "the migration was aborted and does not end, and the target's domain does not wait for the guest"
                );
                Attempt::Impossible
            }
            Some(Err(error)) => {
                tracing::error!(reason = %error, "the migration was aborted and does not end; the domain that waits on the target is not ended");
                Attempt::Impossible
            }
            None => {
                tracing::error!(
                    "the migration was aborted and does not end; the target does not answer"
                );
                Attempt::Impossible
            }
        }
    }
}

/// Ends the target's domain if it waits for its guest. Blocking.
fn end_waiting(connect: &ConnectTarget, target: &Target) -> libvirt::Result<TargetDomain> {
    let Some(domain) = connect(&target.uri)?.lookup(&target.domain)? else {
        return Ok(TargetDomain::Absent);
    };
    let state = domain.state()?;
    if !state.is_active() {
        return Ok(TargetDomain::Absent);
    }
    if !state.waits_for_guest() {
        return Ok(TargetDomain::HasGuest);
    }
    domain.destroy(DestroyMode::Forceful)?;
    Ok(TargetDomain::Ended)
}
