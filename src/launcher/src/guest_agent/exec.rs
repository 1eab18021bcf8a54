//! Running a command in the guest, through its agent: started, then polled until it has ended.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use libvirt::Guest;
use proto::cmd::v1::ExecRequest;
use serde::Deserialize;
use serde_json::json;
use tokio::time::Instant;

use super::{BEYOND, patience};
use crate::manager::error::OpError;
use crate::manager::vm::Vm;

const FIRST_POLL: Duration = Duration::from_millis(20);
const SLOWEST_POLL: Duration = Duration::from_millis(500);

/// A command for the guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuestCommand {
    /// libvirt's name of the domain.
    pub domain: String,
    /// The program.
    pub program: String,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// How long it may run.
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
            timeout: patience(timeout_seconds),
        }
    }
}

/// A command that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// Its exit code; a signal counts as 128 and its number, as shells have it.
    pub exit_code: i32,
    /// What it wrote to its standard output, what is no UTF-8 replaced.
    pub stdout: String,
}

/// A command could not be run to its end.
#[derive(Debug, thiserror::Error)]
pub enum ExecError {
    /// libvirt or the agent refused.
    #[error(transparent)]
    Agent(#[from] OpError),
    /// The agent's answer makes no sense.
    #[error("the guest agent's answer to {command} cannot be read: {message}")]
    Answer {
        /// The agent's command.
        command: &'static str,
        /// What is wrong.
        message: String,
    },
    /// It runs on; the guest has no way to be told otherwise.
    #[error("command {program} still runs in the guest after {timeout:?} (pid {pid})")]
    Timeout {
        /// The program.
        program: String,
        /// Its pid in the guest.
        pid: i64,
        /// How long it was waited for.
        timeout: Duration,
    },
}

#[derive(Deserialize)]
struct Returned<T> {
    #[serde(rename = "return")]
    value: T,
}

#[derive(Deserialize)]
struct Started {
    pid: i64,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Status {
    exited: bool,
    #[serde(default, rename = "exitcode")]
    exit_code: i32,
    #[serde(default)]
    signal: Option<i32>,
    #[serde(default)]
    out_data: String,
}

/// Runs a command and waits for its end.
pub async fn exec(vm: &Vm, command: &GuestCommand) -> Result<Finished, ExecError> {
    let give_up = Instant::now() + command.timeout;
    let guest = lookup(vm, &command.domain).await?;
    let start = json!({
        "execute": "guest-exec",
        "arguments": {"path": command.program, "arg": command.arguments, "capture-output": true},
    });
    let Started { pid } = ask(vm, &guest, "guest-exec", start.to_string(), command.timeout).await?;
    let status = json!({"execute": "guest-exec-status", "arguments": {"pid": pid}}).to_string();
    let mut pause = FIRST_POLL;
    loop {
        let answer: Status = ask(
            vm,
            &guest,
            "guest-exec-status",
            status.clone(),
            command.timeout,
        )
        .await?;
        if answer.exited {
            return finished(answer);
        }
        if Instant::now() + pause > give_up {
            return Err(ExecError::Timeout {
                program: command.program.clone(),
                pid,
                timeout: command.timeout,
            });
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(SLOWEST_POLL);
    }
}

async fn lookup(vm: &Vm, domain: &str) -> Result<Arc<dyn Guest>, ExecError> {
    let name = domain.to_owned();
    let found = vm.libvirt("looking up the domain", BEYOND * 2, move |hypervisor| {
        hypervisor.lookup(&name)
    });
    Ok(found.await?.ok_or_else(|| OpError::no_domain(domain))?)
}

/// Sends one command to the agent; gives what it returned.
pub(crate) async fn ask<T: for<'de> Deserialize<'de>>(
    vm: &Vm,
    guest: &Arc<dyn Guest>,
    command: &'static str,
    json: String,
    patience: Duration,
) -> Result<T, ExecError> {
    let asked = vm.on(
        guest,
        "asking the guest agent",
        patience + BEYOND,
        move |guest| guest.agent_command(&json, patience),
    );
    let answer = asked.await?;
    let answer: Returned<T> = serde_json::from_str(&answer).map_err(|error| ExecError::Answer {
        command,
        message: error.to_string(),
    })?;
    Ok(answer.value)
}

fn finished(status: Status) -> Result<Finished, ExecError> {
    let stdout = STANDARD
        .decode(&status.out_data)
        .map_err(|error| ExecError::Answer {
            command: "guest-exec-status",
            message: format!("out-data is not base64: {error}"),
        })?;
    Ok(Finished {
        exit_code: status
            .signal
            .map_or(status.exit_code, |signal| 128 + signal),
        stdout: String::from_utf8_lossy(&stdout).into_owned(),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn read(json: &str) -> Result<Finished, ExecError> {
        finished(serde_json::from_str(json).unwrap())
    }

    #[test]
    fn output_is_base64_and_a_signal_is_an_exit_code() {
        let done = read(r#"{"exited":true,"exitcode":3,"out-data":"aGkK"}"#).unwrap();
        assert_eq!((done.exit_code, done.stdout.as_str()), (3, "hi\n"));
        assert_eq!(
            read(r#"{"exited":true,"signal":9}"#).unwrap().exit_code,
            137
        );
        assert!(read(r#"{"exited":true,"out-data":"%%"}"#).is_err());
    }

    #[test]
    fn seconds_that_make_no_sense_are_the_default() {
        assert_eq!(patience(3), Duration::from_secs(3));
        assert_eq!(patience(0), super::super::AGENT);
        assert_eq!(patience(-5), super::super::AGENT);
        assert_eq!(patience(i32::MAX), Duration::from_secs(3600));
    }
}
