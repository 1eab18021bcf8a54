//! Keeps the guest's SSH keys and passwords equal to the mounted secrets, through the guest agent.
//!
//! ```text
//!   credentials known ─▶ wait for the guest ─▶ apply ──all set──▶ wait for a change, or five minutes
//!                                 ▲                │                              │
//!                                 │                └─ not all: growing pause ─────┤
//!                                 └─────────────── or the agent connects ─────────┘
//! ```
//! The result goes into KubeVirt's metadata, from which virt-handler makes the VMI's condition
//! `AccessCredentialsSynchronized`. [`domain::guest_agent_access_credentials`] decides which user has which keys.
//! No secret appears in a log or a message.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use domain::guest_agent_access_credentials::{Credential, GuestCredentials, Password};
use domain::secret_source::{SecretError, SecretSource};
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use inotify::{EventStream, Inotify, WatchMask};
use libvirt::Domain;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use tokio::sync::watch::Receiver;
use tokio::time::{Instant, timeout};

use crate::guest_agent::answer_decoders::AnswerError;
use crate::guest_agent::guest_exec::{ExecError, GuestCommand};
use crate::guest_agent::{
    AGENT_TIMEOUT, AgentCommandError, AgentLink, GUEST_PING, guest_exec, quote,
};
use crate::libvirt_client::{CallError, Client};
use crate::mounted_secrets::MountedSecrets;
use crate::notify::{Notifier, Warning};
use crate::{blocking, guest_agent};

/// Keys and passwords are set again after this time, since the guest may change them.
const REAPPLY_INTERVAL: Duration = Duration::from_secs(300);
/// The pause between two attempts: at first, and at most.
const RETRY_PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(15)];
/// An agent that has not answered yet is reported as offline after this time: until then the guest boots.
const BOOT_TIME: Duration = Duration::from_secs(15);
/// How long reading the mounted secrets may take.
const SECRET_READ_TIMEOUT: Duration = Duration::from_secs(10);

/// Records whether all credentials are in the guest, and the reason if they are not. Returns true when this is a
/// change.
pub(crate) type Report = Box<dyn Fn(bool, &str) -> bool + Send + Sync>;

/// Keeps the guest's credentials equal to the mounted secrets.
pub(crate) struct CredentialSync {
    pub(crate) client: Client,
    pub(crate) secrets: MountedSecrets,
    pub(crate) notifier: Notifier,
    /// The credentials; empty until the start of the VM has determined them.
    pub(crate) credentials: Receiver<Vec<Credential>>,
    /// Whether the agent is connected.
    pub(crate) agent_link: Receiver<AgentLink>,
    /// Waits until the guest runs; false when it will not run again.
    pub(crate) guest_runs: Box<dyn Fn() -> BoxFuture<'static, bool> + Send + Sync>,
    /// Called with the result of each attempt.
    pub(crate) report: Report,
}

impl CredentialSync {
    /// Runs until the guest has ended for good.
    pub(crate) async fn run(mut self) {
        let determined = self
            .credentials
            .wait_for(|credentials| !credentials.is_empty());
        let Ok(credentials) = determined.await.map(|credentials| credentials.clone()) else {
            return;
        };
        let mut sync_loop = CredentialSyncLoop {
            watch: SecretWatch::new(&directories(&self.secrets, &credentials)),
            deprecation_reported: false,
            first_attempt: None,
            has_agent_answered: false,
            sync: self,
            credentials,
        };
        let mut pause = RETRY_PAUSES[0];
        while (sync_loop.sync.guest_runs)().await {
            sync_loop.sync.agent_link.mark_unchanged();
            let succeeded = sync_loop.synchronize().await;
            let wait = if succeeded { REAPPLY_INTERVAL } else { pause };
            pause = match succeeded {
                true => RETRY_PAUSES[0],
                false => (pause * 2).min(RETRY_PAUSES[1]),
            };
            let CredentialSyncLoop { watch, sync, .. } = &mut sync_loop;
            let is_retried_at_once = tokio::select! {
                is_changed = watch.changed_within(wait) => is_changed,
                () = agent_connects(&mut sync.agent_link), if !succeeded => true,
            };
            if is_retried_at_once {
                pause = RETRY_PAUSES[0];
            }
        }
    }
}

/// Waits until the agent's connection changes and it is connected then.
async fn agent_connects(link: &mut Receiver<AgentLink>) {
    while link.changed().await.is_ok() {
        if link.borrow_and_update().reachable {
            return;
        }
    }
    // The observer has ended.
    std::future::pending().await
}

/// Checks that the secrets of all credentials are mounted. Blocking.
///
/// # Errors
/// [`SecretError`] of the first secret that is not mounted.
pub(crate) fn require(
    credentials: &[Credential],
    secrets: &dyn SecretSource,
) -> Result<(), SecretError> {
    let mut directories = credentials.iter().map(|credential| &credential.directory);
    directories.try_for_each(|directory| secrets.names(directory).map(drop))
}

fn directories(secrets: &MountedSecrets, credentials: &[Credential]) -> Vec<PathBuf> {
    let directories = credentials.iter();
    directories
        .map(|credential| secrets.0.join(&credential.directory))
        .collect()
}

struct CredentialSyncLoop {
    sync: CredentialSync,
    credentials: Vec<Credential>,
    watch: SecretWatch,
    /// Whether the warning about the old guest agent was sent.
    deprecation_reported: bool,
    /// When the guest ran first.
    first_attempt: Option<Instant>,
    has_agent_answered: bool,
}

impl CredentialSyncLoop {
    /// Sets all credentials in the guest; true on success.
    async fn synchronize(&mut self) -> bool {
        let applied = match self.read_credentials().await {
            Ok(credentials) => apply(&self.sync.client, &credentials).await,
            Err(problem) => ApplyResult::failed(problem),
        };
        let first_attempt = *self.first_attempt.get_or_insert_with(Instant::now);
        self.has_agent_answered |= !applied.is_agent_offline;
        let boots = !self.has_agent_answered && first_attempt.elapsed() < BOOT_TIME;
        if !boots {
            self.report(&applied);
        }
        applied.problems.is_empty()
    }

    async fn read_credentials(&self) -> Result<GuestCredentials, String> {
        let (credentials, secrets) = (self.credentials.clone(), self.sync.secrets.clone());
        let read = move || GuestCredentials::read(&credentials, &secrets);
        let credentials =
            blocking::file_call("reading access credentials", SECRET_READ_TIMEOUT, read).await;
        credentials.map_err(|error| error.to_string())
    }

    fn report(&mut self, applied: &ApplyResult) {
        let succeeded = applied.problems.is_empty();
        let message = applied.problems.join("; ");
        if (self.sync.report)(succeeded, &message) {
            if succeeded {
                tracing::info!("access credentials are in the guest");
            } else {
                tracing::warn!(
                    reason = message,
                    "access credentials are not all in the guest"
                );
            }
        }
        if !succeeded || !applied.by_file {
            self.deprecation_reported = false;
        } else if !self.deprecation_reported {
            self.deprecation_reported = true;
            self.sync.notifier.warning(&Warning {
                reason: "AccessCredentialsSyncSuccess",
                message: "The guest agent is older than 5.2 and cannot set SSH keys itself; they were written \
                          as a file. Update it: KubeVirt will stop doing so."
                    .to_owned(),
            });
        }
    }
}

/// KubeVirt's text, which tools of users look for.
const AGENT_OFFLINE_MESSAGE: &str = "Guest agent is offline";

/// The result of one attempt to set all credentials.
#[derive(Debug, Default, PartialEq, Eq)]
struct ApplyResult {
    /// An error message for each credential that could not be set.
    problems: Vec<String>,
    /// Whether keys were written as a file, since the agent is too old to set them.
    by_file: bool,
    /// Whether the agent did not answer.
    is_agent_offline: bool,
}

impl ApplyResult {
    fn failed(problem: String) -> ApplyResult {
        ApplyResult {
            problems: vec![problem],
            ..ApplyResult::default()
        }
    }
}

/// Sets all keys and passwords. A failure for one user does not affect the others.
async fn apply(client: &Client, credentials: &GuestCredentials) -> ApplyResult {
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
    match replace_authorized_keys(agent, user, keys).await {
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

/// How long the agent may take for one command.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(10);

/// A domain whose agent has answered a ping.
struct PingedAgent<'a> {
    client: &'a Client,
    domain: Arc<dyn Domain>,
}

impl<'a> PingedAgent<'a> {
    /// Looks up the client's domain and pings its agent.
    async fn open(client: &'a Client) -> Result<PingedAgent<'a>, AgentCommandError> {
        let domain = client.lookup().await?;
        let domain = domain.ok_or_else(|| CallError::no_domain(client.domain_name()))?;
        let agent = PingedAgent { client, domain };
        let ping = GUEST_PING.to_owned();
        guest_agent::ask::<IgnoredAny>(client, &agent.domain, "guest-ping", ping, AGENT_TIMEOUT)
            .await?;
        Ok(agent)
    }

    /// Sends one command, and decodes the `return` value of the answer.
    async fn ask<T: for<'de> Deserialize<'de>>(
        &self,
        command: &'static str,
        arguments: Value,
    ) -> Result<T, AgentCommandError> {
        let json = json!({ "execute": command, "arguments": arguments }).to_string();
        guest_agent::ask(self.client, &self.domain, command, json, COMMAND_TIMEOUT).await
    }
}

// Writes a user's `authorized_keys` in the guest, for agents before 5.2, which have no command for SSH keys. The
// agent's file commands write the file; programs in the guest make its directory and set owner and mode.

/// Maximum size of a file that is read in the guest, in bytes.
const MAX_FILE_BYTES: usize = 1024 * 1024;

/// `authorized_keys` could not be replaced.
#[derive(Debug, thiserror::Error)]
enum AuthorizedKeysError {
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
async fn replace_authorized_keys(
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

/// Size of the buffer for inotify events. It holds a burst of events, whose content does not matter.
const EVENT_BUFFER_BYTES: usize = 4096;
/// How often secrets are read when inotify is not available: all VMs of a node share the inotify instances of uid 107,
/// and there may be none left. KubeVirt reads secrets at the same interval.
const RESCAN_INTERVAL: Duration = Duration::from_secs(15);
/// The kubelet changes a secret in several steps. The change is complete when no step has followed for this long.
const QUIET_PERIOD: Duration = Duration::from_millis(500);

/// Watches the directories of secrets with inotify; without inotify, every wait ends after [`RESCAN_INTERVAL`].
struct SecretWatch {
    stream: Option<EventStream<[u8; EVENT_BUFFER_BYTES]>>,
}

impl SecretWatch {
    fn new(directories: &[PathBuf]) -> SecretWatch {
        let stream = Inotify::init().and_then(|inotify| {
            let stream = inotify.into_event_stream([0; EVENT_BUFFER_BYTES])?;
            let mask = WatchMask::CREATE
                | WatchMask::MOVED_TO
                | WatchMask::CLOSE_WRITE
                | WatchMask::DELETE
                | WatchMask::ONLYDIR;
            for directory in directories {
                stream.watches().add(directory, mask)?;
            }
            Ok(stream)
        });
        if let Err(error) = &stream {
            tracing::debug!(%error, "no inotify: access credentials are read every {RESCAN_INTERVAL:?}");
        }
        SecretWatch {
            stream: stream.ok(),
        }
    }

    /// Waits until a change has begun and is complete; false when none has begun within `limit`.
    async fn changed_within(&mut self, limit: Duration) -> bool {
        let Some(stream) = &mut self.stream else {
            tokio::time::sleep(limit.min(RESCAN_INTERVAL)).await;
            return false;
        };
        match timeout(limit, stream.next()).await {
            Ok(Some(Ok(_))) => {
                // The wait has a limit, for a secret that changes all the time.
                let _ = timeout(RESCAN_INTERVAL, until_quiet(stream)).await;
                true
            }
            Ok(Some(Err(_)) | None) => {
                self.stream = None;
                false
            }
            Err(_) => false,
        }
    }
}

/// Waits until no event has come for [`QUIET_PERIOD`].
async fn until_quiet(stream: &mut EventStream<[u8; EVENT_BUFFER_BYTES]>) {
    while let Ok(Some(Ok(_))) = timeout(QUIET_PERIOD, stream.next()).await {}
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

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

    #[tokio::test]
    async fn secret_replaced_by_the_kubelet_is_one_change() {
        let mount = tempfile::tempdir().unwrap();
        symlink("..first", mount.path().join("..data")).unwrap();
        let mut watch = SecretWatch::new(&[mount.path().to_owned()]);
        symlink("..second", mount.path().join("..data_tmp")).unwrap();
        fs::rename(mount.path().join("..data_tmp"), mount.path().join("..data")).unwrap();
        assert!(watch.changed_within(Duration::from_secs(60)).await);
        let repeated = watch.changed_within(Duration::from_millis(1)).await;
        assert!(!repeated, "the steps of one change are one change");
    }

    #[tokio::test]
    async fn directory_that_cannot_be_watched_is_rescanned() {
        let mut watch = SecretWatch::new(&["/nonexistent/secret".into()]);
        assert!(!watch.changed_within(Duration::from_millis(1)).await);
    }
}
