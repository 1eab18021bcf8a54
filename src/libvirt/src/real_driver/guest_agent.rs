//! Calls to the guest agent.

use std::time::Duration;

use virt_sys as sys;

use super::c_strings_and_errors::{c_string, check, take_string};
use super::domain_handle::RealDomain;
use crate::error::Result;
use crate::guest_agent::Agent;

impl Agent for RealDomain {
    fn agent_command(&self, json: &str, timeout: Duration) -> Result<String> {
        let command = c_string("agent command", json)?;
        let seconds = agent_seconds(timeout);
        // SAFETY: the domain is valid, the command NUL-terminated; the caller owns the response.
        unsafe {
            take_string(sys::virDomainQemuAgentCommand(
                self.as_ptr(),
                command.as_ptr(),
                seconds,
                0,
            ))
        }
    }

    fn set_agent_timeout(&self, timeout: Duration) -> Result<()> {
        let seconds = agent_seconds(timeout);
        // SAFETY: the domain is valid.
        check(unsafe { sys::virDomainAgentSetResponseTimeout(self.as_ptr(), seconds, 0) }).map(drop)
    }

    fn set_time(&self, now: Duration) -> Result<()> {
        let seconds = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        // SAFETY: the domain is valid.
        check(unsafe { sys::virDomainSetTime(self.as_ptr(), seconds, now.subsec_nanos(), 0) })
            .map(drop)
    }
}

/// The timeout in whole seconds, rounded up. libvirt takes 0 as "do not wait", -1 as its own default, and -2 as "for ever".
fn agent_seconds(timeout: Duration) -> i32 {
    let rounded_up = timeout
        .as_secs()
        .saturating_add(u64::from(timeout.subsec_nanos() > 0));
    i32::try_from(rounded_up.max(1)).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agent_timeouts_are_whole_seconds_of_at_least_one() {
        assert_eq!(agent_seconds(Duration::ZERO), 1);
        assert_eq!(agent_seconds(Duration::from_millis(1)), 1);
        assert_eq!(agent_seconds(Duration::from_millis(1001)), 2);
        assert_eq!(agent_seconds(Duration::MAX), i32::MAX);
    }
}
