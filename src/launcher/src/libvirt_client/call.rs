//! The classes of calls to libvirt: each has a deadline and a lane.
//!
//! virt-handler waits 5 s for a query and 20 s for a command, and a command makes two queries (lookup and state) first.

use std::time::Duration;

use libvirt::code;
use tokio::time::Instant;

use crate::blocking::{Lane, NoAnswer};

/// Lookups, states, definitions.
pub(crate) const QUICK: CallClass = CallClass::new(LaneName::Query, 4000);
/// Queries of virt-handler.
pub(super) const QUERY: CallClass = CallClass::new(LaneName::Query, 4500);
/// How long a query of virt-handler may take.
pub(crate) const QUERY_DEADLINE: Duration = QUERY.deadline;
/// Reading the state for a snapshot.
pub(super) const STATE: CallClass = CallClass::new(LaneName::Query, 3000);
/// Reading the XML of a running domain. libvirt makes this call wait for other calls to the same QEMU, for 30 s if one
/// of them hangs.
pub(super) const DESCRIPTION: CallClass = CallClass::new(LaneName::Description, 1500);
/// Calls that read data from QEMU, such as statistics.
pub(super) const STATISTICS: CallClass = CallClass::new(LaneName::Statistics, 4500);
/// Commands to a running QEMU.
pub(crate) const COMMAND: CallClass = CallClass::new(LaneName::Command, 11_000);
/// Defining a domain and starting QEMU: images may be on slow storage.
pub(crate) const START: CallClass = CallClass::new(LaneName::Command, 120_000);
/// Commands to the guest agent.
pub(crate) const AGENT: CallClass = CallClass::new(LaneName::Agent, 7000);
/// A reboot through an agent that has just answered. libvirt answers when the guest resets, which may take a minute.
pub(crate) const AGENT_REBOOT: CallClass = CallClass::new(LaneName::Agent, 10_000);
/// Pressing the power button of a guest whose agent does not answer.
pub(crate) const POWER_BUTTON: CallClass = CallClass::new(LaneName::Command, 6000);
/// Pings of the agent for a probe, which may wait for as long as its owner wants. They have a lane of their own, so
/// that a silent agent holds up no other command to it.
pub(crate) const AGENT_PROBE: CallClass = CallClass::new(LaneName::AgentProbe, 7000);
/// Calls that end the domain.
pub(super) const ENDING: CallClass = CallClass::new(LaneName::Ending, 10_000);

/// The deadline and the lane of a call.
#[derive(Debug, Clone, Copy)]
pub struct CallClass {
    pub(super) lane: LaneName,
    pub(crate) deadline: Duration,
}

impl CallClass {
    const fn new(lane: LaneName, milliseconds: u64) -> CallClass {
        CallClass {
            lane,
            deadline: Duration::from_millis(milliseconds),
        }
    }

    /// The same class with another deadline.
    #[must_use]
    pub const fn within(self, deadline: Duration) -> CallClass {
        CallClass { deadline, ..self }
    }

    /// The same class with the remaining time, if the deadline began at `begin`.
    pub(super) fn since(self, begin: Instant) -> CallClass {
        self.within(self.deadline.saturating_sub(begin.elapsed()))
    }

    /// Whether such a call may change the domain.
    pub(super) fn may_change_domain(self) -> bool {
        matches!(self.lane, LaneName::Command | LaneName::Ending)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LaneName {
    Query,
    Description,
    Statistics,
    Command,
    Agent,
    AgentProbe,
    Ending,
}

/// How many queries run at the same time.
pub(super) const QUERY_THREADS: usize = 4;

/// All lanes. The lanes of the main connection have fewer threads than the daemon takes requests from one client
/// (`max_client_requests` in the daemon's configuration).
pub(super) struct Lanes {
    query: Lane,
    description: Lane,
    statistics: Lane,
    command: Lane,
    agent: Lane,
    agent_probe: Lane,
    ending: Lane,
    process: Lane,
}

impl Default for Lanes {
    fn default() -> Lanes {
        Lanes {
            query: Lane::new("libvirt-query", QUERY_THREADS),
            // One for a call that hangs and one for the next call: callers share the answers.
            description: Lane::new("libvirt-xml", 2),
            statistics: Lane::new("libvirt-stats", 2),
            command: Lane::new("libvirt-command", 4),
            agent: Lane::new("libvirt-agent", 4),
            // One for a probe that waits, and one for a probe that follows it.
            agent_probe: Lane::new("agent-probe", 2),
            ending: Lane::new("libvirt-ending", 4),
            process: Lane::new("qemu-process", 2),
        }
    }
}

impl Lanes {
    /// The lane for finding QEMU's process, which is needed to end QEMU when the daemon hangs.
    pub(super) fn process(&self) -> &Lane {
        &self.process
    }

    pub(super) fn get(&self, name: LaneName) -> &Lane {
        match name {
            LaneName::Query => &self.query,
            LaneName::Description => &self.description,
            LaneName::Statistics => &self.statistics,
            LaneName::Command => &self.command,
            LaneName::Agent => &self.agent,
            LaneName::AgentProbe => &self.agent_probe,
            LaneName::Ending => &self.ending,
        }
    }
}

/// `virErrorDomain` of the QEMU driver.
pub(crate) const QEMU_DRIVER: i32 = 10;

/// A call to libvirt failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum CallError {
    /// libvirt returned an error.
    #[error(transparent)]
    Libvirt(#[from] libvirt::Error),
    /// The call timed out.
    #[error(transparent)]
    NoAnswer(#[from] NoAnswer),
    /// QEMU has not ended after SIGKILL.
    #[error(
        "QEMU (pid {pid}) was sent SIGKILL and has not ended; it most likely waits for storage"
    )]
    NotEnded {
        /// The process id of QEMU.
        pid: i32,
    },
}

impl CallError {
    /// libvirt's error for a domain that does not exist, with the domain's name.
    pub fn no_domain(domain: &str) -> CallError {
        CallError::Libvirt(libvirt::Error {
            code: code::NO_DOMAIN,
            domain: QEMU_DRIVER,
            message: format!("Domain not found: no domain with matching name '{domain}'"),
        })
    }

    /// Whether the domain is certainly unchanged, since the QEMU driver returned the error. A call that timed out or
    /// whose connection broke may still be carried out.
    pub fn is_definite(&self) -> bool {
        matches!(self, CallError::Libvirt(error) if error.domain == QEMU_DRIVER)
    }

    /// Whether libvirt does not know the domain.
    pub fn is_no_domain(&self) -> bool {
        matches!(self, CallError::Libvirt(error) if error.is_no_domain())
    }

    /// The text for a `Response`.
    pub fn message(&self) -> String {
        match self {
            CallError::Libvirt(error) => response_text(error),
            other => other.to_string(),
        }
    }
}

/// The text of a libvirt error for a `Response`, in KubeVirt's format, which users search for.
pub(crate) fn response_text(error: &libvirt::Error) -> String {
    let libvirt::Error { code, domain, .. } = error;
    let message = error.printable_message();
    format!("LibvirtError(Code={code}, Domain={domain}, Message='{message}')")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guest_agent::AGENT_TIMEOUT;

    #[test]
    fn deadlines_stay_below_virt_handlers() {
        let (query, command) = (Duration::from_secs(5), Duration::from_secs(20));
        assert!(STATE.deadline + DESCRIPTION.deadline < query);
        for class in [QUICK, QUERY, STATISTICS] {
            assert!(class.deadline < query, "{class:?}");
        }
        assert!(QUICK.deadline * 2 + COMMAND.deadline < command);
        let queries_and_ping = QUICK.deadline * 2 + AGENT_TIMEOUT;
        assert!(
            queries_and_ping + POWER_BUTTON.deadline < command,
            "shutdown"
        );
        let query_and_ping = QUICK.deadline + AGENT_TIMEOUT;
        assert!(
            query_and_ping + AGENT_REBOOT.deadline < command,
            "soft reboot"
        );
    }

    #[test]
    fn response_text_has_libvirts_code_and_message() {
        let text = CallError::no_domain("default_vm1").message();
        assert_eq!(
            text,
            "LibvirtError(Code=42, Domain=10, Message='Domain not found: no domain with matching name 'default_vm1'')"
        );
    }
}
