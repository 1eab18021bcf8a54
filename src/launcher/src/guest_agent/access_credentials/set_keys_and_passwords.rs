//! Sets SSH keys and passwords in the guest through its agent.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use domain::guest_agent_access_credentials::{GuestCredentials, Password};
use serde::de::IgnoredAny;
use serde_json::json;

use super::authorized_keys_file;
use super::pinged_agent::PingedAgent;
use crate::guest_agent::send_command::AgentCommandError;
use crate::libvirt_client::Client;

/// KubeVirt's text, which tools of users look for.
const AGENT_OFFLINE_MESSAGE: &str = "Guest agent is offline";

/// The result of one attempt to set all credentials.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ApplyResult {
    /// An error message for each credential that could not be set.
    pub(super) problems: Vec<String>,
    /// Whether keys were written as a file, since the agent is too old to set them.
    pub(super) by_file: bool,
    /// Whether the agent did not answer.
    pub(super) is_agent_offline: bool,
}

impl ApplyResult {
    pub(super) fn failed(problem: String) -> ApplyResult {
        ApplyResult {
            problems: vec![problem],
            ..ApplyResult::default()
        }
    }
}

/// Sets all keys and passwords. A failure for one user does not affect the others.
pub(super) async fn apply(client: &Client, credentials: &GuestCredentials) -> ApplyResult {
    let agent = match PingedAgent::open(client).await {
        Ok(agent) => agent,
        Err(_) => {
            return ApplyResult {
                is_agent_offline: true,
                ..ApplyResult::failed(AGENT_OFFLINE_MESSAGE.to_owned())
            };
        }
    };
    let mut applied = ApplyResult {
        problems: credentials.unreadable.clone(),
        ..ApplyResult::default()
    };
    for (user, keys) in &credentials.keys {
        match set_keys(&agent, user, keys).await {
            Ok(by_file) => applied.by_file |= by_file,
            Err(error) => applied
                .problems
                .push(format!("setting the SSH keys of user {user}: {error}")),
        }
    }
    for (user, password) in &credentials.passwords {
        if let Err(error) = set_password(&agent, user, password).await {
            let problem = format!("setting the password of user {user}: {error}");
            applied.problems.push(problem);
        }
    }
    applied
}

/// Makes `keys` the user's only keys. Returns true when they were written as a file, since the agent cannot set keys.
async fn set_keys(agent: &PingedAgent<'_>, user: &str, keys: &[String]) -> Result<bool, String> {
    let arguments = json!({ "username": user, "keys": keys, "reset": true });
    let set = agent.ask::<IgnoredAny>("guest-ssh-add-authorized-keys", arguments);
    let Err(error) = set.await else {
        return Ok(false);
    };
    tracing::debug!(user, reason = %error, "the agent did not set SSH keys; writing the file");
    match authorized_keys_file::replace_authorized_keys(agent, user, keys).await {
        Ok(()) => Ok(true),
        Err(file_error) => Err(format!("{error}; as a file: {file_error}")),
    }
}

async fn set_password(
    agent: &PingedAgent<'_>,
    user: &str,
    password: &Password,
) -> Result<(), AgentCommandError> {
    let password = STANDARD.encode(password.reveal());
    let arguments = json!({ "username": user, "password": password, "crypted": false });
    agent
        .ask::<IgnoredAny>("guest-set-user-password", arguments)
        .await
        .map(drop)
}
