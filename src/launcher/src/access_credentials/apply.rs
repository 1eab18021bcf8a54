//! Putting keys and passwords into the guest.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use domain::access_credentials::{Password, Wanted};
use libvirt::Guest;
use serde_json::{Value, json};

use super::authorized_keys;
use crate::guest_agent::{self, ExecError};
use crate::manager::Vm;
use crate::manager::error::OpError;

/// How long the agent may take over one command.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
const PING: Duration = Duration::from_secs(5);
/// KubeVirt's words, which users wait for.
const OFFLINE: &str = "Guest agent is offline";

/// What came of an attempt.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Applied {
    /// What is not in the guest, and why.
    pub(super) problems: Vec<String>,
    /// Keys were written as a file, since the agent is too old to set them.
    pub(super) by_file: bool,
}

impl Applied {
    pub(super) fn failed(problem: String) -> Applied {
        Applied {
            problems: vec![problem],
            by_file: false,
        }
    }
}

/// Puts everything into the guest that can be. Users do not stand in each other's way.
pub(super) async fn apply(vm: &Vm, wanted: &Wanted) -> Applied {
    let agent = match Agent::find(vm).await {
        Ok(agent) => agent,
        Err(_) => return Applied::failed(OFFLINE.to_owned()),
    };
    let mut applied = Applied {
        problems: wanted.unread.clone(),
        by_file: false,
    };
    for (user, keys) in &wanted.keys {
        match agent.set_keys(user, keys).await {
            Ok(by_file) => applied.by_file |= by_file,
            Err(error) => applied
                .problems
                .push(format!("setting the SSH keys of user {user}: {error}")),
        }
    }
    for (user, password) in &wanted.passwords {
        if let Err(error) = agent.set_password(user, password).await {
            let problem = format!("setting the password of user {user}: {error}");
            applied.problems.push(problem);
        }
    }
    applied
}

/// A guest whose agent has answered.
pub(super) struct Agent<'a> {
    pub(super) vm: &'a Vm,
    guest: Arc<dyn Guest>,
}

impl<'a> Agent<'a> {
    async fn find(vm: &'a Vm) -> Result<Agent<'a>, ExecError> {
        let guest = vm.lookup().await?.ok_or(OpError::NotFound)?;
        let agent = Agent { vm, guest };
        let ping = json!({ "execute": "guest-ping" }).to_string();
        guest_agent::ask::<Value>(vm, &agent.guest, "guest-ping", ping, PING).await?;
        Ok(agent)
    }

    /// Sends one command.
    pub(super) async fn ask<T: for<'de> serde::Deserialize<'de>>(
        &self,
        command: &'static str,
        arguments: Value,
    ) -> Result<T, ExecError> {
        let json = json!({ "execute": command, "arguments": arguments }).to_string();
        guest_agent::ask(self.vm, &self.guest, command, json, PATIENCE).await
    }

    /// Makes these the user's only keys. Whether that took a file, for an agent that cannot.
    async fn set_keys(&self, user: &str, keys: &[String]) -> Result<bool, String> {
        let arguments = json!({ "username": user, "keys": keys, "reset": true });
        let set = self.ask::<Value>("guest-ssh-add-authorized-keys", arguments);
        let Err(error) = set.await else {
            return Ok(false);
        };
        tracing::debug!(user, reason = %error, "the agent did not set SSH keys; writing the file");
        match authorized_keys::write(self, user, keys).await {
            Ok(()) => Ok(true),
            Err(second) => Err(format!("{error}; as a file: {second}")),
        }
    }

    async fn set_password(&self, user: &str, password: &Password) -> Result<(), ExecError> {
        let password = STANDARD.encode(password.reveal());
        let arguments = json!({ "username": user, "password": password, "crypted": false });
        self.ask::<Value>("guest-set-user-password", arguments)
            .await
            .map(drop)
    }
}
