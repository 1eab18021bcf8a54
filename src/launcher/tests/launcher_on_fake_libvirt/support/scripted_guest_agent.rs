//! A guest agent on the fake libvirt whose answers a test sets.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use libvirt::fake::FakeDaemon;
use libvirt::{code, origin};
use serde_json::{Value, json};

use super::test_launcher::{DOMAIN, TestLauncher};

/// A guest agent whose answers a test can set. Unknown commands fail.
#[derive(Clone, Default)]
pub(crate) struct ScriptedAgent(Arc<Mutex<AgentState>>);

#[derive(Default)]
struct AgentState {
    answers: BTreeMap<String, Value>,
    /// The answer to every command, if set.
    raw_answer: Option<String>,
    failures: BTreeMap<String, libvirt::Error>,
    counts: BTreeMap<String, usize>,
}

impl ScriptedAgent {
    /// An agent with the answers that were recorded from a guest of KubeVirt's launcher.
    pub(crate) fn recorded() -> ScriptedAgent {
        let agent = ScriptedAgent::default();
        agent.answer(
            "guest-info",
            json!({"version": "7.2.22", "supported_commands": [
            {"name": "guest-get-devices", "enabled": false, "success-response": true},
            {"name": "guest-ping", "enabled": true, "success-response": true}]}),
        );
        agent.answer("guest-fsfreeze-status", json!("thawed"));
        agent.answer("guest-get-osinfo", json!({"name": "KV Test Guest", "kernel-release": "6.1.0-56-cloud-amd64",
            "version-id": "1", "pretty-name": "KV Test Guest 1", "id": "kvtest", "machine": "x86_64",
            "kernel-version": "#1 SMP PREEMPT_DYNAMIC Debian 6.1.192-2 (2026-11-16)"}));
        agent.answer(
            "guest-network-get-interfaces",
            json!([
            {"name": "lo", "ip-addresses": [], "hardware-address": "00:00:00:00:00:00"},
            {"name": "eth0", "hardware-address": "02:00:00:00:00:01", "ip-addresses": [
                {"ip-address-type": "ipv6", "ip-address": "fec0::ff:fe00:1", "prefix": 64},
                {"ip-address-type": "ipv6", "ip-address": "fe80::ff:fe00:1", "prefix": 64}]}]),
        );
        agent.answer("guest-get-host-name", json!({"host-name": "kvtest"}));
        agent.answer("guest-get-timezone", json!({"zone": "UTC", "offset": 0}));
        agent.answer("guest-get-users", json!([]));
        agent.answer("guest-get-fsinfo", json!([{"name": "vda", "mountpoint": "/mnt/vda", "type": "ext4",
            "used-bytes": 14336, "total-bytes": 52_685_824, "disk": [{"bus-type": "virtio", "bus": 0, "unit": 0}]}]));
        agent
    }

    /// Sets the value that is returned for a command.
    pub(crate) fn answer(&self, command: &str, value: Value) {
        self.0
            .lock()
            .unwrap()
            .answers
            .insert(command.to_owned(), value);
    }

    /// Sets or clears the error of a command.
    pub(crate) fn fail(&self, command: &str, error: Option<libvirt::Error>) {
        let mut state = self.0.lock().unwrap();
        match error {
            Some(error) => _ = state.failures.insert(command.to_owned(), error),
            None => _ = state.failures.remove(command),
        }
    }

    /// Answers every command with this text, which need not be JSON.
    pub(crate) fn answer_raw(&self, text: String) {
        self.0.lock().unwrap().raw_answer = Some(text);
    }

    /// The number of times that a command was received.
    pub(crate) fn count(&self, command: &str) -> usize {
        self.0
            .lock()
            .unwrap()
            .counts
            .get(command)
            .copied()
            .unwrap_or_default()
    }

    fn handle(&self, json: &str) -> libvirt::Result<String> {
        let request: Value = serde_json::from_str(json).unwrap();
        let command = request["execute"].as_str().unwrap().to_owned();
        let mut state = self.0.lock().unwrap();
        *state.counts.entry(command.clone()).or_default() += 1;
        if let Some(raw) = &state.raw_answer {
            return Ok(raw.clone());
        }
        if let Some(error) = state.failures.get(&command) {
            return Err(error.clone());
        }
        match (command.as_str(), state.answers.get(&command)) {
            ("guest-fsfreeze-freeze", None) => {
                state
                    .answers
                    .insert("guest-fsfreeze-status".into(), json!("frozen"));
                Ok(json!({"return": 1}).to_string())
            }
            ("guest-fsfreeze-thaw", None) => {
                state
                    .answers
                    .insert("guest-fsfreeze-status".into(), json!("thawed"));
                Ok(json!({"return": 1}).to_string())
            }
            (_, Some(value)) => Ok(json!({"return": value}).to_string()),
            (_, None) => Err(FakeDaemon::error(
                code::AGENT_COMMAND_FAILED,
                origin::QEMU,
                &format!(
                    "guest agent command failed: unable to execute QEMU agent command '{command}': The command {command} has not been found"
                ),
            )),
        }
    }

    /// Connects the agent to the domain's channel.
    pub(crate) fn connect(&self, launcher: &TestLauncher) {
        let agent = self.clone();
        launcher
            .fake
            .set_agent(DOMAIN, Some(Arc::new(move |json: &str| agent.handle(json))));
    }
}

/// A launcher whose VM runs with this agent.
pub(crate) async fn launcher_with_agent(agent: &ScriptedAgent) -> TestLauncher {
    let launcher = TestLauncher::new().await;
    launcher.sync_vm().await.unwrap();
    agent.connect(&launcher);
    launcher
}

/// A launcher whose VM runs with the recorded agent, which is thawed.
pub(crate) async fn launcher_with_recorded_agent() -> (TestLauncher, ScriptedAgent) {
    let launcher = TestLauncher::new().await;
    launcher.sync_vm().await.unwrap();
    let agent = ScriptedAgent::recorded();
    agent.connect(&launcher);
    launcher.notifications_until("freeze=thawed").await;
    (launcher, agent)
}
