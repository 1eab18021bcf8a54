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

mod authorized_keys_file;
mod pinged_agent;
mod secret_watch;
mod set_keys_and_passwords;

use std::path::PathBuf;
use std::time::Duration;

use domain::guest_agent_access_credentials::{Credential, GuestCredentials};
use domain::secret_source::{SecretError, SecretSource};
use futures_util::future::BoxFuture;
use tokio::sync::watch::Receiver;
use tokio::time::Instant;

use crate::blocking;
use crate::guest_agent::AgentLink;
use crate::libvirt_client::Client;
use crate::mounted_secrets::MountedSecrets;
use crate::notify::{Notifier, Warning};
use secret_watch::SecretWatch;
use set_keys_and_passwords::{ApplyResult, apply};

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
