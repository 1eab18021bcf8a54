//! Writes a user's `authorized_keys` in the guest, for agents before 5.2, which have no command for SSH keys. The
//! agent's file commands write the file; programs in the guest make its directory and set owner and mode.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::json;

use super::pinged_agent::{COMMAND_TIMEOUT, PingedAgent};
use crate::guest_agent::answer_decoders::AnswerError;
use crate::guest_agent::guest_exec::{self, ExecError, GuestCommand};
use crate::guest_agent::quote;
use crate::guest_agent::send_command::AgentCommandError;

/// Maximum size of a file that is read in the guest, in bytes.
const MAX_FILE_BYTES: usize = 1024 * 1024;

/// `authorized_keys` could not be replaced.
#[derive(Debug, thiserror::Error)]
pub(super) enum AuthorizedKeysError {
    /// A command of the agent failed.
    #[error(transparent)]
    Agent(#[from] AgentCommandError),
    /// A program could not be run in the guest.
    #[error(transparent)]
    Exec(#[from] ExecError),
    /// A program in the guest exited with an error.
    #[error("{program} ended with {exit_code} in the guest")]
    Program {
        /// The program and its arguments.
        program: String,
        /// The program's exit code.
        exit_code: i32,
    },
    /// The guest has no such user.
    #[error("the guest reports no home directory for user {0}")]
    UserNotFound(String),
}

/// The answer to `guest-file-read`.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Chunk {
    #[serde(default)]
    buf_b64: String,
    #[serde(default)]
    eof: bool,
}

/// A user's home directory and, as `UID:GID`, the owner of the files in it.
#[derive(Debug, PartialEq, Eq)]
struct HomeDirectory {
    directory: String,
    owner: String,
}

/// Replaces the content of the user's `authorized_keys`.
pub(super) async fn replace_authorized_keys(
    agent: &PingedAgent<'_>,
    user: &str,
    keys: &[String],
) -> Result<(), AuthorizedKeysError> {
    let entry = run(agent, "getent", &["passwd", "--", user]).await?;
    let home = parse_passwd_entry(&entry)
        .ok_or_else(|| AuthorizedKeysError::UserNotFound(user.to_owned()))?;
    let directory = format!("{}/.ssh", home.directory);
    let file = format!("{directory}/authorized_keys");
    let content = keys.join("\n");
    let before = read(agent, &file).await?;
    if before.as_deref() == Some(content.as_bytes()) {
        return Ok(());
    }
    run(agent, "mkdir", &["-p", "--", &directory]).await?;
    set_owner_and_mode(agent, &home, "700", &directory).await?;
    if before.is_some() {
        set_owner_and_mode(agent, &home, "600", &file).await?;
    }
    let open = json!({ "path": file, "mode": "w" });
    let handle: i64 = agent.ask("guest-file-open", open).await?;
    let text = STANDARD.encode(&content);
    let put = json!({ "handle": handle, "buf-b64": text });
    let written = agent.ask::<IgnoredAny>("guest-file-write", put).await;
    close(agent, handle).await?;
    written?;
    set_owner_and_mode(agent, &home, "600", &file).await
}

/// The content of a file in the guest; `None` when there is no such file.
async fn read(agent: &PingedAgent<'_>, path: &str) -> Result<Option<Vec<u8>>, AuthorizedKeysError> {
    let open = json!({ "path": path, "mode": "r" });
    let handle: i64 = match agent.ask("guest-file-open", open).await {
        Ok(handle) => handle,
        Err(error) if error.to_string().contains("No such file or directory") => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let content = read_handle(agent, handle).await;
    close(agent, handle).await?;
    Ok(Some(content?))
}

async fn read_handle(agent: &PingedAgent<'_>, handle: i64) -> Result<Vec<u8>, AuthorizedKeysError> {
    let mut content = Vec::new();
    while content.len() <= MAX_FILE_BYTES {
        let request = json!({ "handle": handle, "count": 64 * 1024 });
        let chunk: Chunk = agent.ask("guest-file-read", request).await?;
        let bytes = STANDARD
            .decode(&chunk.buf_b64)
            .map_err(|error| AgentCommandError::Answer {
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

async fn close(agent: &PingedAgent<'_>, handle: i64) -> Result<(), AuthorizedKeysError> {
    let arguments = json!({ "handle": handle });
    agent
        .ask::<IgnoredAny>("guest-file-close", arguments)
        .await?;
    Ok(())
}

async fn set_owner_and_mode(
    agent: &PingedAgent<'_>,
    home: &HomeDirectory,
    mode: &str,
    path: &str,
) -> Result<(), AuthorizedKeysError> {
    run(agent, "chown", &[&home.owner, path]).await?;
    run(agent, "chmod", &[mode, path]).await?;
    Ok(())
}

async fn run(
    agent: &PingedAgent<'_>,
    program: &str,
    arguments: &[&str],
) -> Result<String, AuthorizedKeysError> {
    let command = GuestCommand {
        domain: agent.client.domain_name().to_owned(),
        program: program.to_owned(),
        arguments: arguments.iter().map(ToString::to_string).collect(),
        timeout: COMMAND_TIMEOUT,
    };
    let output = guest_exec::exec(agent.client, &command).await?;
    if output.exit_code != 0 {
        return Err(AuthorizedKeysError::Program {
            // Not trusted: an argument may be a path from the guest's user database.
            program: quote(&format!("{program} {}", arguments.join(" "))),
            exit_code: output.exit_code,
        });
    }
    Ok(output.stdout)
}

/// Parses a line of `getent passwd`.
fn parse_passwd_entry(entry: &str) -> Option<HomeDirectory> {
    let fields: Vec<&str> = entry.trim().split(':').collect();
    let [_, _, uid, gid, _, directory, ..] = fields.as_slice() else {
        return None;
    };
    directory.starts_with('/').then(|| HomeDirectory {
        directory: (*directory).to_owned(),
        owner: format!("{uid}:{gid}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn home_directory_and_owner_are_parsed_from_passwd() {
        let home =
            parse_passwd_entry("fedora:x:1000:1001:Cloud User:/home/fedora:/bin/bash\n").unwrap();
        assert_eq!(home.directory, "/home/fedora");
        assert_eq!(home.owner, "1000:1001");
        for entry in ["", "root:x:0:0:root", "x:x:1:1:x:relative:/bin/sh"] {
            assert_eq!(parse_passwd_entry(entry), None, "{entry}");
        }
    }
}
