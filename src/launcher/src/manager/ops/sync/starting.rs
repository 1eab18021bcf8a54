//! The moment inside a start when the domain has its QEMU process and no processor runs yet. libvirt
//! has no event for it; virt-handler is told of it all the same, so it is asked for.

use std::sync::Arc;
use std::time::Duration;

use libvirt::{DomainState, Guest, Reason, State};
use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::manager::vm::Vm;
use crate::notify::Fact;

/// Between two questions. The moment takes tens of milliseconds, and the daemon answers each time it
/// waits for QEMU.
const PAUSE: Duration = Duration::from_millis(3);

/// What to do after an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Ask,
    Tell,
    Stop,
}

/// Looks out for the moment until it came, it passed, or the result is dropped.
pub(super) fn watch(vm: &Vm, guest: &Arc<dyn Guest>) -> DropGuard {
    let over = CancellationToken::new();
    let (guest, facts, until) = (Arc::clone(guest), vm.facts.clone(), over.clone());
    tokio::task::spawn_blocking(move || look_out(&*guest, &facts, &until));
    over.drop_guard()
}

fn look_out(guest: &dyn Guest, facts: &mpsc::UnboundedSender<Fact>, over: &CancellationToken) {
    while !over.is_cancelled() {
        match guest.state().map_or(Next::Stop, next) {
            Next::Ask => std::thread::sleep(PAUSE),
            Next::Tell => {
                let _ = facts.send(Fact::StartingUp);
                return;
            }
            Next::Stop => return,
        }
    }
}

fn next(state: State) -> Next {
    match (state.state, state.reason) {
        (DomainState::Paused, Reason::StartingUp) => Next::Tell,
        _ if state.is_down() => Next::Ask,
        _ => Next::Stop,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_asked_until_the_domain_is_no_longer_off() {
        let after = |state, reason| next(State::new(state, reason));
        assert_eq!(after(DomainState::Shutoff, Reason::Unknown), Next::Ask);
        assert_eq!(after(DomainState::Paused, Reason::StartingUp), Next::Tell);
        assert_eq!(after(DomainState::Paused, Reason::User), Next::Stop);
        assert_eq!(after(DomainState::Running, Reason::Booted), Next::Stop);
    }
}
