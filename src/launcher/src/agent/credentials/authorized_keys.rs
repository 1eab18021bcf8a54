//! SSH keys for agents before 5.2, which have no command for them: writes the file `authorized_keys`, and runs
//! the guest's own programs for its directory, owner and mode.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::json;

use super::agent_session::{AgentSession, COMMAND_TIMEOUT};
use crate::agent::answer::AnswerError;
use crate::agent::guest_exec::{self, ExecError, GuestCommand};
use crate::agent::quote;

/// The most that is read of a file in the guest, in bytes.
const MAX_BYTES: usize = 1024 * 1024;

/// The file is not written.
#[derive(Debug, thiserror::Error)]
pub(super) enum KeysError {
    /// The agent refused, or did not answer.
    #[error(transparent)]
    Agent(#[from] ExecError),
    /// A program in the guest failed.
    #[error("{program} ended with {exit_code} in the guest")]
    Program {
        /// The program and its arguments.
        program: String,
        /// Its exit code.
        exit_code: i32,
    },
    /// The guest has no such user.
    #[error("the guest does not tell the home directory of user {0}")]
    NoHome(String),
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Chunk {
    #[serde(default)]
    buf_b64: String,
    #[serde(default)]
    eof: bool,
}

/// Where a user's files are, and whose they are to be.
#[derive(Debug, PartialEq, Eq)]
struct Home {
    directory: String,
    owner: String,
}

/// Makes these the user's only keys.
pub(super) async fn write(
    agent: &AgentSession<'_>,
    user: &str,
    keys: &[String],
) -> Result<(), KeysError> {
    let entry = run(agent, "getent", &["passwd", "--", user]).await?;
    let home = home(&entry).ok_or_else(|| KeysError::NoHome(user.to_owned()))?;
    let directory = format!("{}/.ssh", home.directory);
    let file = format!("{directory}/authorized_keys");
    let content = keys.join("\n");
    let before = read(agent, &file).await?;
    if before.as_deref() == Some(content.as_bytes()) {
        return Ok(());
    }
    run(agent, "mkdir", &["-p", "--", &directory]).await?;
    own(agent, &home, "700", &directory).await?;
    if before.is_some() {
        own(agent, &home, "600", &file).await?;
    }
    let open = json!({ "path": file, "mode": "w" });
    let handle: i64 = agent.ask("guest-file-open", open).await?;
    let text = STANDARD.encode(&content);
    let put = json!({ "handle": handle, "buf-b64": text });
    let written = agent.ask::<IgnoredAny>("guest-file-write", put).await;
    close(agent, handle).await?;
    written?;
    own(agent, &home, "600", &file).await
}

/// A file's content; `None` when there is none.
async fn read(agent: &AgentSession<'_>, path: &str) -> Result<Option<Vec<u8>>, KeysError> {
    let open = json!({ "path": path, "mode": "r" });
    let handle: i64 = match agent.ask("guest-file-open", open).await {
        Ok(handle) => handle,
        Err(error) if error.to_string().contains("No such file or directory") => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let content = read_open(agent, handle).await;
    close(agent, handle).await?;
    Ok(Some(content?))
}

async fn read_open(agent: &AgentSession<'_>, handle: i64) -> Result<Vec<u8>, KeysError> {
    let mut content = Vec::new();
    while content.len() <= MAX_BYTES {
        let more = json!({ "handle": handle, "count": 64 * 1024 });
        let chunk: Chunk = agent.ask("guest-file-read", more).await?;
        let bytes = STANDARD
            .decode(&chunk.buf_b64)
            .map_err(|error| ExecError::Answer {
                command: "guest-file-read",
                source: AnswerError::content(&format!("buf-b64 is not base64: {error}")),
            })?;
        if chunk.eof || bytes.is_empty() {
            content.extend(bytes);
            break;
        }
        content.extend(bytes);
    }
    Ok(content)
}

async fn close(agent: &AgentSession<'_>, handle: i64) -> Result<(), KeysError> {
    let arguments = json!({ "handle": handle });
    agent
        .ask::<IgnoredAny>("guest-file-close", arguments)
        .await?;
    Ok(())
}

async fn own(
    agent: &AgentSession<'_>,
    home: &Home,
    mode: &str,
    path: &str,
) -> Result<(), KeysError> {
    run(agent, "chown", &[&home.owner, path]).await?;
    run(agent, "chmod", &[mode, path]).await?;
    Ok(())
}

async fn run(
    agent: &AgentSession<'_>,
    program: &str,
    arguments: &[&str],
) -> Result<String, KeysError> {
    let command = GuestCommand {
        domain: agent.client.domain_name().to_owned(),
        program: program.to_owned(),
        arguments: arguments.iter().map(ToString::to_string).collect(),
        timeout: COMMAND_TIMEOUT,
    };
    let done = guest_exec::exec(agent.client, &command).await?;
    if done.exit_code != 0 {
        return Err(KeysError::Program {
            // An argument may be a path from the guest's user database.
            program: quote(&format!("{program} {}", arguments.join(" "))),
            exit_code: done.exit_code,
        });
    }
    Ok(done.stdout)
}

/// From a line of the guest's user database.
fn home(entry: &str) -> Option<Home> {
    let fields: Vec<&str> = entry.trim().split(':').collect();
    let [_, _, uid, gid, _, directory, ..] = fields.as_slice() else {
        return None;
    };
    directory.starts_with('/').then(|| Home {
        directory: (*directory).to_owned(),
        owner: format!("{uid}:{gid}"),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn home_is_read_from_the_user_database() {
        let found = home("fedora:x:1000:1001:Cloud User:/home/fedora:/bin/bash\n").unwrap();
        assert_eq!(found.directory, "/home/fedora");
        assert_eq!(found.owner, "1000:1001");
        for entry in ["", "root:x:0:0:root", "x:x:1:1:x:relative:/bin/sh"] {
            assert_eq!(home(entry), None, "{entry}");
        }
    }
}
