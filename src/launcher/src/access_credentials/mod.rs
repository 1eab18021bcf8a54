//! SSH keys and passwords that reach the guest through its agent, for as long as it runs.
//!
//! ```text
//!   told of credentials ─▶ wait for the guest ─▶ apply ──all well──▶ wait for a change, or five minutes
//!                                 ▲                │                              │
//!                                 │                └─ not all: wait, ever longer ─┤
//!                                 └───────────────────────────────────────────────┘
//! ```
//! What came of it is told in KubeVirt's metadata, from which virt-handler makes the VMI's condition
//! `AccessCredentialsSynchronized`. Who has which keys is [`domain::access_credentials`]'s to say.
//! Secrets appear in no log and no message.

mod apply;
mod authorized_keys;
mod watch;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use domain::access_credentials::{Credential, Wanted};

use crate::blocking;
use crate::manager::{Vm, VmState};
use crate::notify::Warning;
use apply::{Applied, apply};
use watch::Watch;

/// A guest may have changed what was put into it.
const AGAIN: Duration = Duration::from_secs(300);
/// Between two attempts: from the first to the last.
const RETRY: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(15)];
const READ: Duration = Duration::from_secs(10);

/// Keeps the guest's credentials as the secrets have them, once a start has told which they are.
pub(crate) async fn keep(vm: Arc<Vm>) {
    let mut told = vm.credentials.subscribe();
    let first = told.wait_for(|credentials| !credentials.is_empty()).await;
    let Ok(credentials) = first.map(|credentials| credentials.clone()) else {
        return;
    };
    let mut keeper = Keeper {
        watch: Watch::new(&directories(&vm, &credentials)),
        deprecation_told: false,
        vm,
        credentials,
    };
    let mut pause = RETRY[0];
    while keeper.guest_runs().await {
        let is_well = keeper.synchronize().await;
        let wait = if is_well { AGAIN } else { pause };
        pause = match is_well {
            true => RETRY[0],
            false => (pause * 2).min(RETRY[1]),
        };
        if keeper.watch.changed_within(wait).await {
            pause = RETRY[0];
        }
    }
}

/// Checks that the secrets of all credentials are mounted. Blocking.
///
/// # Errors
/// The reason in words, with the path.
pub(crate) fn require(
    credentials: &[Credential],
    secrets: &dyn domain::cloud_init::SecretSource,
) -> Result<(), String> {
    let mut directories = credentials.iter().map(|credential| &credential.directory);
    directories.try_for_each(|directory| secrets.names(directory).map(drop))
}

fn directories(vm: &Vm, credentials: &[Credential]) -> Vec<PathBuf> {
    let root = &vm.preparation.secrets.0;
    let directories = credentials.iter();
    directories
        .map(|credential| root.join(&credential.directory))
        .collect()
}

struct Keeper {
    vm: Arc<Vm>,
    credentials: Vec<Credential>,
    watch: Watch,
    /// The VM's owner knows that the guest's agent is an old one.
    deprecation_told: bool,
}

impl Keeper {
    /// False when it never will again.
    async fn guest_runs(&self) -> bool {
        let mut state = self.vm.state.clone();
        let known = state.wait_for(|state| matches!(state, VmState::Active | VmState::Gone));
        known.await.is_ok_and(|state| *state == VmState::Active)
    }

    /// Whether everything is in the guest.
    async fn synchronize(&mut self) -> bool {
        let applied = match self.wanted().await {
            Ok(wanted) => apply(&self.vm, &wanted).await,
            Err(problem) => Applied::failed(problem),
        };
        self.report(&applied);
        applied.problems.is_empty()
    }

    async fn wanted(&self) -> Result<Wanted, String> {
        let (credentials, secrets) = (
            self.credentials.clone(),
            self.vm.preparation.secrets.clone(),
        );
        let read = move || Wanted::read(&credentials, &secrets);
        let wanted = blocking::call("reading access credentials", READ, read).await;
        wanted.map_err(|error| error.to_string())
    }

    fn report(&mut self, applied: &Applied) {
        let is_well = applied.problems.is_empty();
        let message = applied.problems.join("; ");
        if self.vm.metadata.set_access_credential(is_well, &message) {
            if is_well {
                tracing::info!("access credentials are in the guest");
            } else {
                tracing::warn!(
                    reason = message,
                    "access credentials are not all in the guest"
                );
            }
        }
        if !is_well || !applied.by_file {
            self.deprecation_told = false;
        } else if !self.deprecation_told {
            self.deprecation_told = true;
            self.vm.notifier.warning(&Warning {
                reason: "AccessCredentialsSyncSuccess",
                message: "The guest agent is older than 5.2 and cannot set SSH keys itself; they were written \
                          as a file. Update it: KubeVirt will stop doing so."
                    .to_owned(),
            });
        }
    }
}
