//! Pinging the agent, as the guest agent probe does.

use std::sync::Arc;

use libvirt::{Domain, DomainState, Error, Reason, State, code};

use super::{AGENT_TIMEOUT, GUEST_PING, LIBVIRT_MARGIN, agent_timeout, command_agent};
use crate::libvirt_client::{AGENT, CallError, Client};

/// Pings the agent of a domain. A VM that is paused for a good reason or migrates counts as healthy, and so does a
/// domain that does not exist (yet): a failing probe would end the pod. `migrates` is called after the agent did not
/// answer.
pub(crate) async fn ping(
    client: &Client,
    domain: &str,
    seconds: i32,
    migrates: impl Fn() -> bool,
) -> Result<(), CallError> {
    let name = domain.to_owned();
    // A silent agent must not occupy the threads for agent calls for as long as a probe may wait.
    let deadline = agent_timeout(seconds).min(AGENT_TIMEOUT);
    let asked = client.libvirt(
        "pinging the guest agent",
        AGENT.within(deadline + LIBVIRT_MARGIN),
        move |hypervisor| {
            let Some(domain) = hypervisor.lookup(&name)? else {
                return Ok(None);
            };
            let answer = command_agent(&*domain, GUEST_PING, deadline);
            Ok(Some((answer, domain.state())))
        },
    );
    let asked = match asked.await {
        // The agent is connected, and silent.
        Err(CallError::NoAnswer(_)) if migrates() => return Ok(()),
        asked => asked?,
    };
    match asked {
        None => Ok(()),
        Some((Ok(_), _)) => Ok(()),
        // libvirt does not send commands to the agent of a paused guest.
        Some((Err(error), state))
            if (is_silent(&error) || error.is_operation_invalid())
                && (excuses(state.as_ref().ok()) || migrates()) =>
        {
            Ok(())
        }
        Some((Err(error), _)) => Err(error.into()),
    }
}

/// Succeeds when the agent of a domain gives a sign of life within [`AGENT_TIMEOUT`].
pub(crate) async fn expect_answer(
    client: &Client,
    domain: &Arc<dyn Domain>,
) -> Result<(), CallError> {
    let class = AGENT.within(AGENT_TIMEOUT);
    let ping = |domain: &dyn Domain| command_agent(domain, GUEST_PING, AGENT_TIMEOUT);
    let pinged = client.on(domain, "pinging the guest agent", class, ping);
    pinged.await.map(drop)
}

fn is_silent(error: &Error) -> bool {
    error.is_agent_unresponsive() || error.code == code::AGENT_COMMAND_TIMEOUT
}

/// Whether the state explains a silent agent. No state: the domain is just going away.
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
    fn silent_agent_is_excused_by_a_healthy_pause_only() {
        let excused = |state, reason| excuses(Some(&State::new(state, reason)));
        assert!(excused(DomainState::Paused, Reason::User));
        assert!(!excused(DomainState::Paused, Reason::IOError));
        assert!(!excused(DomainState::Running, Reason::Booted));
    }
}
