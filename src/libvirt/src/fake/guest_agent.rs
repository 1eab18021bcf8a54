//! Calls to the guest agent of a simulated domain.

use std::time::Duration;

use super::Call;
use super::domain_handle::FakeDomain;
use crate::error::Result;
use crate::guest_agent::Agent;

impl Agent for FakeDomain {
    fn agent_command(&self, json: &str, _timeout: Duration) -> Result<String> {
        let agent = self.with_domain(Call::Agent, |domain| domain.must_have_agent())?;
        agent(json)
    }

    fn set_agent_timeout(&self, _timeout: Duration) -> Result<()> {
        self.with_domain(Call::Agent, |domain| domain.must_have_agent().map(drop))
    }

    fn set_time(&self, now: Duration) -> Result<()> {
        let command = format!(
            r#"{{"execute":"guest-set-time","arguments":{{"time":{}}}}}"#,
            now.as_nanos()
        );
        self.agent_command(&command, Duration::ZERO).map(drop)
    }
}
