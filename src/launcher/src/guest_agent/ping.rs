//! Pinging the agent, as the guest agent probe does.

use libvirt::{DomainState, Reason, State};

use super::{BEYOND, patience};
use crate::manager::error::OpError;
use crate::manager::vm::Vm;

/// Pings the agent of a domain. A VM that is paused for a good reason counts as well, and so does one
/// that is not here (yet): a probe that failed then would end the pod.
pub async fn ping(vm: &Vm, domain: &str, seconds: i32) -> Result<(), OpError> {
    if vm.memory().agent_probe_paused {
        return Ok(());
    }
    let name = domain.to_owned();
    let deadline = patience(seconds);
    let asked = vm.libvirt(
        "pinging the guest agent",
        deadline + BEYOND,
        move |hypervisor| {
            let Some(guest) = hypervisor.lookup(&name)? else {
                return Ok(None);
            };
            let answer = guest.agent_command(r#"{"execute":"guest-ping"}"#, deadline);
            Ok(Some((answer, guest.state())))
        },
    );
    match asked.await? {
        None => Ok(()),
        Some((Ok(_), _)) => Ok(()),
        Some((Err(error), state))
            if error.is_agent_unresponsive() && excuses(state.as_ref().ok()) =>
        {
            Ok(())
        }
        Some((Err(error), _)) => Err(error.into()),
    }
}

/// A state that cannot be told is the last moment before the domain is gone.
fn excuses(state: Option<&State>) -> bool {
    let Some(State { state, reason }) = state else {
        return true;
    };
    let good_reason = matches!(
        reason,
        Reason::User
            | Reason::Migration
            | Reason::Save
            | Reason::Dump
            | Reason::FromSnapshot
            | Reason::ShuttingDown
            | Reason::Snapshot
            | Reason::StartingUp
            | Reason::Postcopy
    );
    *state == DomainState::Paused && good_reason
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_healthy_pause_excuses_silence() {
        let excused = |state, reason| excuses(Some(&State::new(state, reason)));
        assert!(excused(DomainState::Paused, Reason::User));
        assert!(!excused(DomainState::Paused, Reason::IOError));
        assert!(!excused(DomainState::Running, Reason::Booted));
    }
}
