//! Polls for the moment during a start when the domain has a QEMU process and its vCPUs do not run yet. virt-handler is
//! notified of that moment, and libvirt sends no event for it.

use std::sync::Arc;
use std::time::Duration;

use libvirt::{Domain, DomainState, Reason, State};
use tokio_util::task::AbortOnDropHandle;

use crate::libvirt_client::Client;
use crate::manager::vm_context::VmContext;
use crate::vm_event_queue::VmEventSender;
use crate::vm_events::VmEvent;

/// The pause between two polls. The moment lasts tens of milliseconds, and the daemon can answer whenever it waits for
/// QEMU.
const POLL_INTERVAL: Duration = Duration::from_millis(3);

/// What to do after a poll of the state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NextStep {
    PollAgain,
    Report,
    Stop,
}

/// A task that polls until the moment has come or has passed. Dropping it ends the task.
pub(super) struct QemuStartPoll(
    #[expect(dead_code, reason = "ends the task when it is dropped")] AbortOnDropHandle<()>,
);

impl QemuStartPoll {
    pub(super) fn start(vm: &VmContext, domain: &Arc<dyn Domain>) -> QemuStartPoll {
        let watch = watch(vm.client.clone(), Arc::clone(domain), vm.events.clone());
        QemuStartPoll(AbortOnDropHandle::new(tokio::spawn(watch)))
    }
}

/// Polls the state, and sends [`VmEvent::StartingUp`] if the moment comes.
async fn watch(client: Client, domain: Arc<dyn Domain>, events: VmEventSender) {
    loop {
        match client
            .state_of(&domain)
            .await
            .map_or(NextStep::Stop, next_step)
        {
            NextStep::PollAgain => tokio::time::sleep(POLL_INTERVAL).await,
            NextStep::Report => {
                // Fails only when the observer is gone.
                let _ = events.send(VmEvent::StartingUp);
                return;
            }
            NextStep::Stop => return,
        }
    }
}

fn next_step(state: State) -> NextStep {
    match (state.state, state.reason) {
        (DomainState::Paused, Reason::StartingUp) => NextStep::Report,
        _ if state.is_down() => NextStep::PollAgain,
        _ => NextStep::Stop,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn polls_until_the_domain_is_no_longer_off() {
        let after = |state, reason| next_step(State::new(state, reason));
        assert_eq!(
            after(DomainState::Shutoff, Reason::Unknown),
            NextStep::PollAgain
        );
        assert_eq!(
            after(DomainState::Paused, Reason::StartingUp),
            NextStep::Report
        );
        assert_eq!(after(DomainState::Paused, Reason::User), NextStep::Stop);
        assert_eq!(after(DomainState::Running, Reason::Booted), NextStep::Stop);
    }
}
