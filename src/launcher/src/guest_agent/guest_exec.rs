//! Runs a command in the guest through its agent: starts the command, then polls until the command has ended.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use libvirt::Domain;
use proto::cmd::v1::ExecRequest;
use serde::Deserialize;
use serde_json::json;
use tokio::time::Instant;

use super::answer_decoders::AnswerError;
use super::{AGENT_TIMEOUT, AgentCommandError, agent_timeout, ask};
use crate::libvirt_client::{CallError, Client, QUICK};

/// The first pause between two polls; each pause is twice as long as the one before.
/// The first pause between two polls; each pause is twice as long as the one before.
const MIN_POLL_INTERVAL: Duration = Duration::from_millis(20);
/// The longest pause between two polls.
/// The longest pause between two polls.
const MAX_POLL_INTERVAL: Duration = Duration::from_millis(500);

/// A command for the guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GuestCommand {
    /// libvirt's name of the domain.
    pub domain: String,
    /// The program.
    pub program: String,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// How long the command may run.
    pub timeout: Duration,
}

impl From<ExecRequest> for GuestCommand {
    fn from(request: ExecRequest) -> Self {
        let ExecRequest {
            domain_name,
            command,
            args,
            timeout_seconds,
        } = request;
        GuestCommand {
            domain: domain_name,
            program: command,
            arguments: args,
            timeout: agent_timeout(timeout_seconds),
        }
    }
}

impl GuestCommand {
    /// How long the agent may take for one agent command. A silent agent must not occupy the threads for agent calls
    /// for as long as the command in the guest may run.
    fn agent_timeout(&self) -> Duration {
        self.timeout.min(AGENT_TIMEOUT)
    }
}

/// The result of a command that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CommandOutput {
    /// The exit code; as in shells, a signal counts as 128 plus its number.
    pub exit_code: i32,
    /// The standard output; invalid UTF-8 is replaced.
    pub stdout: String,
}

/// A command could not be started, or has not ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ExecError {
    /// A command of the agent failed.
    #[error(transparent)]
    Command(#[from] AgentCommandError),
    /// The command still runs after its timeout; the agent has no command to end it.
    #[error("Timed out waiting for guest pid [{pid}] for command [{program}] to exit")]
    Timeout {
        /// The program.
        program: String,
        /// The pid in the guest.
        pid: i64,
    },
}

#[derive(Deserialize)]
struct ExecAnswer {
    pid: i64,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct ExecStatus {
    exited: bool,
    #[serde(default, rename = "exitcode")]
    exit_code: i32,
    #[serde(default)]
    signal: Option<i32>,
    #[serde(default)]
    out_data: String,
}

/// Runs a command and waits for its end.
pub(crate) async fn exec(
    client: &Client,
    command: &GuestCommand,
) -> Result<CommandOutput, ExecError> {
    let deadline = Instant::now() + command.timeout;
    let domain = lookup(client, &command.domain).await?;
    let start = json!({
        "execute": "guest-exec",
        "arguments": {"path": command.program, "arg": command.arguments, "capture-output": true},
    });
    let timeout = command.agent_timeout();
    let ExecAnswer { pid } = ask(client, &domain, "guest-exec", start.to_string(), timeout).await?;
    let status = json!({"execute": "guest-exec-status", "arguments": {"pid": pid}}).to_string();
    let mut pause = MIN_POLL_INTERVAL;
    loop {
        let answer: ExecStatus = ask(
            client,
            &domain,
            "guest-exec-status",
            status.clone(),
            timeout,
        )
        .await?;
        if answer.exited {
            return Ok(command_output(answer)?);
        }
        if Instant::now() + pause > deadline {
            return Err(ExecError::Timeout {
                program: command.program.clone(),
                pid,
            });
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(MAX_POLL_INTERVAL);
    }
}

async fn lookup(client: &Client, domain: &str) -> Result<Arc<dyn Domain>, AgentCommandError> {
    let name = domain.to_owned();
    let lookup = client.libvirt("looking up the domain", QUICK, move |hypervisor| {
        hypervisor.lookup(&name)
    });
    Ok(lookup.await?.ok_or_else(|| CallError::no_domain(domain))?)
}

fn command_output(status: ExecStatus) -> Result<CommandOutput, AgentCommandError> {
    let stdout = STANDARD
        .decode(&status.out_data)
        .map_err(|error| AgentCommandError::Answer {
            command: "guest-exec-status",
            source: AnswerError::content(&format!("out-data is not base64: {error}")),
        })?;
    Ok(CommandOutput {
        exit_code: status
            .signal
            .map_or(status.exit_code, |signal| signal.saturating_add(128)),
        stdout: String::from_utf8_lossy(&stdout).into_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<CommandOutput, AgentCommandError> {
        command_output(serde_json::from_str(json).unwrap())
    }

    #[test]
    fn output_is_base64_and_signal_becomes_exit_code() {
        let output = read(r#"{"exited":true,"exitcode":3,"out-data":"aGkK"}"#).unwrap();
        assert_eq!((output.exit_code, output.stdout.as_str()), (3, "hi\n"));
        assert_eq!(
            read(r#"{"exited":true,"signal":9}"#).unwrap().exit_code,
            137
        );
        let saturated = read(r#"{"exited":true,"signal":2147483647}"#).unwrap();
        assert_eq!(saturated.exit_code, i32::MAX);
        assert!(read(r#"{"exited":true,"out-data":"%%"}"#).is_err());
    }

    #[test]
    fn timeout_of_an_agent_call_is_limited_for_a_long_command() {
        let command = |timeout_seconds| {
            GuestCommand::from(ExecRequest {
                timeout_seconds,
                ..ExecRequest::default()
            })
        };
        assert_eq!(command(3600).timeout, Duration::from_secs(3600));
        assert_eq!(command(3600).agent_timeout(), AGENT_TIMEOUT);
        assert_eq!(command(1).agent_timeout(), Duration::from_secs(1));
    }

    #[test]
    fn invalid_timeouts_become_the_default() {
        assert_eq!(agent_timeout(3), Duration::from_secs(3));
        assert_eq!(agent_timeout(0), AGENT_TIMEOUT);
        assert_eq!(agent_timeout(-5), AGENT_TIMEOUT);
        assert_eq!(agent_timeout(i32::MAX), Duration::from_secs(3600));
    }
}
