//! Watches for the moment inside a start when the domain has its QEMU process and its processors do not run yet.
//! libvirt sends no event for that moment and virt-handler is notified of it, so the state is polled.

use std::sync::Arc;
use std::time::Duration;

use libvirt::{Domain, DomainState, Reason, State};
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use crate::libvirt_client::Client;
use crate::manager::vm_context::VmContext;
use crate::vm_events::VmEvent;

/// Between two polls. The moment lasts tens of milliseconds, and the daemon answers each time it waits for QEMU.
const POLL_INTERVAL: Duration = Duration::from_millis(3);

/// What to do after a poll.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Poll,
    Report,
    Stop,
}

/// Polls until the moment has come or has passed, or this is dropped.
pub(super) struct StartingUpPoll(
    #[expect(dead_code, reason = "ends the task when it is dropped")] AbortOnDropHandle<()>,
);

impl StartingUpPoll {
    pub(super) fn start(vm: &VmContext, domain: &Arc<dyn Domain>) -> StartingUpPoll {
        let watch = watch(vm.client.clone(), Arc::clone(domain), vm.events.clone());
        StartingUpPoll(AbortOnDropHandle::new(tokio::spawn(watch)))
    }
}

async fn watch(client: Client, domain: Arc<dyn Domain>, events: mpsc::UnboundedSender<VmEvent>) {
    loop {
        match client.state_of(&domain).await.map_or(Next::Stop, next) {
            Next::Poll => tokio::time::sleep(POLL_INTERVAL).await,
            Next::Report => {
                // Fails only when the observer is gone.
                let _ = events.send(VmEvent::StartingUp);
                return;
            }
            Next::Stop => return,
        }
    }
}

fn next(state: State) -> Next {
    match (state.state, state.reason) {
        (DomainState::Paused, Reason::StartingUp) => Next::Report,
        _ if state.is_down() => Next::Poll,
        _ => Next::Stop,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_is_polled_until_the_domain_is_no_longer_off() {
        let after = |state, reason| next(State::new(state, reason));
        assert_eq!(after(DomainState::Shutoff, Reason::Unknown), Next::Poll);
        assert_eq!(after(DomainState::Paused, Reason::StartingUp), Next::Report);
        assert_eq!(after(DomainState::Paused, Reason::User), Next::Stop);
        assert_eq!(after(DomainState::Running, Reason::Booted), Next::Stop);
    }
}
