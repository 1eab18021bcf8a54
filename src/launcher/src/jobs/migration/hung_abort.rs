//! An abort that libvirt has accepted and QEMU does not carry out.
//!
//! QEMU 10.0 can deadlock when a migration with local disks is aborted as its transfer begins: the source waits for the
//! target's NBD server, whose thread waits for the first bytes of the source's next channel. The guest stands still until one
//! of both processes ends. The target's has no guest: it waits for the one that stays here.

use std::sync::Arc;
use std::time::Duration;

use libvirt::{DestroyMode, Domain};
use tokio::time::Instant;

use super::guest_location_inquiry::Target;
use super::libvirt_call;
use crate::blocking;
use crate::libvirt_client::ConnectTarget;

/// An abort takes less than a second. This long before the target's domain is ended, and between two attempts.
const PATIENCE: Duration = Duration::from_secs(10);
/// libvirt waits up to 15 s for a QEMU that does not heed SIGTERM, before and after SIGKILL.
const DESTROY: Duration = Duration::from_secs(20);

/// Ends the target's domain if an abort takes too long.
#[derive(Debug, Default)]
pub(super) struct AbortWatch {
    next: Option<Instant>,
}

impl AbortWatch {
    /// libvirt has accepted an abort, or the target's domain was to be ended.
    pub(super) fn begin(&mut self) {
        self.next = Some(Instant::now() + PATIENCE);
    }

    /// Whether it takes too long by now.
    pub(super) fn is_late(&self) -> bool {
        self.next.is_some_and(|next| next <= Instant::now())
    }
}

/// Ends the target's domain, unless the guest may run there.
pub(super) async fn end_waiting_target(
    source: &Arc<dyn Domain>,
    connect: &ConnectTarget,
    target: Target,
) {
    let state = libvirt_call::state(source).await;
    if !state.is_ok_and(|state| state.is_active() && !state.may_run_on_target()) {
        return;
    }
    let connect = Arc::clone(connect);
    let end = move || end_waiting(&connect, &target);
    match blocking::call("ending the target's domain", DESTROY, end).await {
        Ok(Ok(true)) => {
            tracing::warn!(
                "the migration was aborted and did not end: the domain that waits on the target is ended"
            );
        }
        Ok(Ok(false)) => {}
        Ok(Err(error)) => {
            tracing::warn!(reason = %error, "the domain that waits on the target is not ended");
        }
        Err(error) => {
            tracing::warn!(reason = %error, "the domain that waits on the target is not ended");
        }
    }
}

/// Whether there was a domain that waits for its guest. Blocking.
fn end_waiting(connect: &ConnectTarget, target: &Target) -> libvirt::Result<bool> {
    let Some(domain) = connect(&target.uri)?.lookup(&target.domain)? else {
        return Ok(false);
    };
    if !domain.state()?.waits_for_guest() {
        return Ok(false);
    }
    domain.destroy(DestroyMode::Forceful).map(|()| true)
}
