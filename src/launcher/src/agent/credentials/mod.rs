//! Keeps SSH keys and passwords in the guest as the secrets have them, through the guest agent.
//!
//! ```text
//!   credentials known ─▶ wait for the guest ─▶ apply ──all well──▶ wait for a change, or five minutes
//!                                 ▲                │                              │
//!                                 │                └─ not all: wait, ever longer ─┤
//!                                 └───────────────────────────────────────────────┘
//! ```
//! The result goes into KubeVirt's metadata, from which virt-handler makes the VMI's condition
//! `AccessCredentialsSynchronized`. [`domain::access_credentials`] decides who has which keys.
//! Secrets appear in no log and no message.

mod agent_session;
mod authorized_keys_without_agent_command;
mod secret_watch;
mod set_keys_and_passwords;

use std::path::PathBuf;
use std::time::Duration;

use domain::access_credentials::{Credential, GuestCredentials};
use domain::secret_source::{SecretError, SecretSource};
use futures_util::future::BoxFuture;
use tokio::sync::watch::Receiver;

use crate::blocking;
use crate::libvirt_client::Client;
use crate::mounted_secrets::MountedSecrets;
use crate::notify::{Notifier, Warning};
use secret_watch::SecretWatch;
use set_keys_and_passwords::{ApplyResult, apply};

/// The guest may change its keys and passwords, so they are set again.
const REAPPLY_INTERVAL: Duration = Duration::from_secs(300);
/// Between two attempts: from the first to the last.
const RETRY: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(15)];
const READ: Duration = Duration::from_secs(10);

/// Records whether all credentials are in the guest, and if not, why; true when that is news.
pub(crate) type Report = Box<dyn Fn(bool, &str) -> bool + Send + Sync>;

/// Keeps the guest's credentials as the secrets have them.
pub(crate) struct CredentialSync {
    pub(crate) client: Client,
    pub(crate) secrets: MountedSecrets,
    pub(crate) notifier: Notifier,
    /// The credentials, once a start has determined them.
    pub(crate) credentials: Receiver<Vec<Credential>>,
    /// Waits until the guest runs; false when it never will again.
    pub(crate) guest_runs: Box<dyn Fn() -> BoxFuture<'static, bool> + Send + Sync>,
    /// Where the outcome goes.
    pub(crate) report: Report,
}

impl CredentialSync {
    /// Runs until the guest never runs again.
    pub(crate) async fn run(mut self) {
        let known = self
            .credentials
            .wait_for(|credentials| !credentials.is_empty());
        let Ok(credentials) = known.await.map(|credentials| credentials.clone()) else {
            return;
        };
        let mut keeper = CredentialKeeper {
            watch: SecretWatch::new(&directories(&self.secrets, &credentials)),
            deprecation_told: false,
            sync: self,
            credentials,
        };
        let mut pause = RETRY[0];
        while (keeper.sync.guest_runs)().await {
            let succeeded = keeper.synchronize().await;
            let wait = if succeeded { REAPPLY_INTERVAL } else { pause };
            pause = match succeeded {
                true => RETRY[0],
                false => (pause * 2).min(RETRY[1]),
            };
            if keeper.watch.changed_within(wait).await {
                pause = RETRY[0];
            }
        }
    }
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

struct CredentialKeeper {
    sync: CredentialSync,
    credentials: Vec<Credential>,
    watch: SecretWatch,
    /// A warning about the old guest agent was sent.
    deprecation_told: bool,
}

impl CredentialKeeper {
    /// Whether everything is in the guest.
    async fn synchronize(&mut self) -> bool {
        let applied = match self.read_credentials().await {
            Ok(wanted) => apply(&self.sync.client, &wanted).await,
            Err(problem) => ApplyResult::failed(problem),
        };
        self.report(&applied);
        applied.problems.is_empty()
    }

    async fn read_credentials(&self) -> Result<GuestCredentials, String> {
        let (credentials, secrets) = (self.credentials.clone(), self.sync.secrets.clone());
        let read = move || GuestCredentials::read(&credentials, &secrets);
        let wanted = blocking::file_call("reading access credentials", READ, read).await;
        wanted.map_err(|error| error.to_string())
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
            self.deprecation_told = false;
        } else if !self.deprecation_told {
            self.deprecation_told = true;
            self.sync.notifier.warning(&Warning {
                reason: "AccessCredentialsSyncSuccess",
                message: "The guest agent is older than 5.2 and cannot set SSH keys itself; they were written \
                          as a file. Update it: KubeVirt will stop doing so."
                    .to_owned(),
            });
        }
    }
}
