//! Pings the agent, for the guest agent probe and before a soft reboot through the agent.

use std::sync::Arc;

use libvirt::{Domain, DomainState, Error, Reason, State, code};

use super::{AGENT_TIMEOUT, GUEST_PING, LIBVIRT_MARGIN, agent_timeout, command_agent};
use crate::libvirt_client::{AGENT, AGENT_PROBE, CallError, Client};

/// Pings the agent of a domain, for the guest agent probe; `seconds` is the probe's timeout. A VM that migrates or is
/// paused for a harmless reason counts as healthy, and so does a domain that does not exist (yet): a failing probe would
/// end the pod. `migrates` is called after the agent has not answered.
pub(crate) async fn ping(
    client: &Client,
    domain: &str,
    seconds: i32,
    migrates: impl Fn() -> bool,
) -> Result<(), CallError> {
    let name = domain.to_owned();
    let deadline = agent_timeout(seconds);
    let ping = client.libvirt(
        "pinging the guest agent",
        AGENT_PROBE.within(deadline + LIBVIRT_MARGIN),
        move |hypervisor| {
            let Some(domain) = hypervisor.lookup(&name)? else {
                return Ok(None);
            };
            let answer = command_agent(&*domain, GUEST_PING, deadline);
            Ok(Some((answer, domain.state())))
        },
    );
    let pinged = match ping.await {
        // The agent is connected and does not answer.
        Err(CallError::NoAnswer(_)) if migrates() => return Ok(()),
        result => result?,
    };
    match pinged {
        None => Ok(()),
        Some((Ok(_), _)) => Ok(()),
        // libvirt does not send commands to the agent of a paused guest.
        Some((Err(error), state))
            if (is_silent(&error) || error.is_operation_invalid())
                && (explains_silence(state.as_ref().ok()) || migrates()) =>
        {
            Ok(())
        }
        Some((Err(error), _)) => Err(error.into()),
    }
}

/// Succeeds when the agent of a domain answers a ping within [`AGENT_TIMEOUT`].
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

/// Whether the domain's state explains a silent agent. `None` means that the domain is just going away.
fn explains_silence(state: Option<&State>) -> bool {
    let Some(State { state, reason }) = state else {
        return true;
    };
    let is_harmless = matches!(
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
    *state == DomainState::Paused && is_harmless
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_of_the_agent_is_explained_by_a_harmless_pause_only() {
        let is_explained = |state, reason| explains_silence(Some(&State::new(state, reason)));
        assert!(is_explained(DomainState::Paused, Reason::User));
        assert!(!is_explained(DomainState::Paused, Reason::IOError));
        assert!(!is_explained(DomainState::Running, Reason::Booted));
    }
}
