//! Freezes and thaws the guest's file systems through the agent. The safety thaw thaws a guest that nobody has thawed
//! in time.
//!
//! Freeze, thaw and safety thaw run one at a time. An attempt of the safety thaw belongs to one freeze: if the guest
//! was thawed and frozen again while the attempt waited, it does not end the new freeze.

mod safety_thaw_state_machine;
mod safety_thaw_task;
mod tpm_state_sync;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use libvirt::{Domain, code};
use tokio::sync::{Mutex, mpsc};

use super::answer_decoders::{self, AnswerError};
use super::guest_info_cache::{AgentFact, FreezeStatus, GuestInfoCache};
use super::{AGENT_TIMEOUT, LIBVIRT_MARGIN, command_agent};
use crate::libvirt_client::{AGENT, CallError, Client};
use safety_thaw_state_machine::Input;
use safety_thaw_task::SafetyThawState;
pub(crate) use tpm_state_sync::TpmStateError;

/// How long a freeze may take. Windows takes most of a minute; virt-handler waits 60 s.
const FREEZE_TIMEOUT: Duration = Duration::from_secs(45);
/// How long a thaw may take. virt-handler waits 20 s, for the status and the thaw.
const THAW_TIMEOUT: Duration = Duration::from_secs(8);

/// A freeze or thaw failed.
#[derive(Debug, thiserror::Error)]
pub enum FreezeError {
    /// libvirt or the agent returned an error, or gave no answer.
    #[error(transparent)]
    Agent(#[from] CallError),
    /// The agent's answer is invalid.
    #[error(transparent)]
    Answer(#[from] AnswerError),
    /// The state of the persistent TPM cannot be written to disk.
    #[error(transparent)]
    TpmState(#[from] TpmStateError),
}

/// A request to freeze.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FreezeRequest {
    /// The guest is thawed after this time if no thaw was requested before.
    pub thaw_after: Option<Duration>,
    /// The VM has a persistent TPM, whose state is written to disk too.
    pub persistent_tpm: bool,
}

/// Whether a freeze or thaw has changed the guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// The guest was frozen or thawed.
    Done,
    /// The guest was in the requested state already.
    None,
    /// The guest has no file system that can be frozen; its agent always reports it as thawed.
    NothingToFreeze,
}

/// Freezes and thaws the guest. Clones share their state.
#[derive(Clone)]
pub struct Freezer(Arc<Inner>);

struct Inner {
    client: Client,
    cache: Arc<GuestInfoCache>,
    tpm_state: PathBuf,
    /// Held during a freeze or thaw, so that they run one at a time.
    operation: Mutex<()>,
    /// The number of freezes so far; the number of the latest freeze.
    freeze_count: AtomicU64,
    /// Whether the guest was frozen by the agent's last answer. The guest may have been reset since.
    was_frozen: AtomicBool,
    /// Whether the guest was frozen, or a freeze with unknown result was sent, and the agent has not reported "thawed"
    /// since.
    may_be_frozen: AtomicBool,
    safety_thaw_inputs: mpsc::UnboundedSender<(u64, Input)>,
    safety_thaw: Mutex<SafetyThawState>,
}

impl Freezer {
    /// A freezer for a guest that is not frozen. `tpm_state` is the directory with the state of the TPM.
    pub(crate) fn new(client: Client, cache: Arc<GuestInfoCache>, tpm_state: PathBuf) -> Freezer {
        let (safety_thaw_inputs, received) = mpsc::unbounded_channel();
        Freezer(Arc::new(Inner {
            client,
            cache,
            tpm_state,
            operation: Mutex::default(),
            freeze_count: AtomicU64::new(0),
            was_frozen: AtomicBool::new(false),
            may_be_frozen: AtomicBool::new(false),
            safety_thaw_inputs,
            safety_thaw: Mutex::new(SafetyThawState::new(received)),
        }))
    }

    /// Freezes the guest's file systems. A guest that is frozen already stays frozen, with the time limit of the first
    /// freeze.
    pub(crate) async fn freeze(&self, request: FreezeRequest) -> Result<Change, FreezeError> {
        let _operation = self.0.operation.lock().await;
        let domain = self.domain().await?;
        if self.status(&domain).await? == FreezeStatus::Frozen {
            return Ok(Change::None);
        }
        if request.persistent_tpm {
            tpm_state_sync::sync(self.0.tpm_state.clone()).await?;
        }
        let number = self.0.freeze_count.fetch_add(1, Ordering::Relaxed) + 1;
        match self
            .send(&domain, "guest-fsfreeze-freeze", FREEZE_TIMEOUT)
            .await
        {
            Ok(answer) if answer_decoders::frozen_count(&answer).is_ok_and(|count| count == 0) => {
                Ok(Change::NothingToFreeze)
            }
            Ok(_) => {
                self.inform_safety_thaw(number, Input::Frozen(request.thaw_after));
                self.record(FreezeStatus::Frozen);
                Ok(Change::Done)
            }
            Err(error) => {
                // An agent that answered the status and does not respond now may have received the freeze.
                if !is_refusal(&error) || is_unresponsive(&error) {
                    // The agent may have frozen the file systems or may still freeze them: the safety thaw thaws them.
                    self.0.may_be_frozen.store(true, Ordering::Relaxed);
                    self.inform_safety_thaw(number, Input::MayBeFrozen);
                }
                Err(error.into())
            }
        }
    }

    /// Whether the guest's file systems are frozen.
    pub(crate) async fn is_frozen(&self) -> Result<bool, FreezeError> {
        let _operation = self.0.operation.lock().await;
        let domain = self.domain().await?;
        Ok(self.status(&domain).await? == FreezeStatus::Frozen)
    }

    /// Whether the guest was frozen through this launcher and, as far as the agent reports, is frozen still. An agent
    /// that crashed during a freeze does not block migrations, since it has never answered that the guest is frozen.
    pub(crate) async fn keeps_frozen(&self) -> bool {
        // The agent is not asked about a guest that was not frozen.
        self.0.was_frozen.load(Ordering::Relaxed) && self.is_frozen().await.unwrap_or(true)
    }

    /// Thaws the guest's file systems. After a failure the safety thaw repeats this in the background, unless the guest
    /// is certainly not frozen.
    pub(crate) async fn thaw(&self) -> Result<Change, FreezeError> {
        let _operation = self.0.operation.lock().await;
        let number = self.0.freeze_count.load(Ordering::Relaxed);
        let result = self.thaw_domain().await;
        self.inform_safety_thaw(number, self.input_after_thaw(&result));
        result
    }

    /// Thaws a guest that may be frozen and is to power off or reboot: its agent refuses both, and a shutdown by the
    /// power button would hang on the frozen file systems. Returns whether the agent has answered in time; it is not
    /// asked about a guest that was not frozen.
    pub(crate) async fn thaw_if_frozen(&self, within: Duration) -> bool {
        if !self.may_be_frozen() {
            return true;
        }
        tracing::info!("the guest may be frozen and is to power off or reboot: it is thawed");
        let reason = match tokio::time::timeout(within, self.thaw()).await {
            Ok(Ok(_)) => return true,
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no answer within {within:?}"),
        };
        tracing::warn!(
            reason,
            "the guest is not thawed, and may not be able to power off or reboot"
        );
        false
    }

    /// The input to the safety thaw after an attempt to thaw. An error of the agent is not retried for a guest that was
    /// never frozen; otherwise a guest without an agent would be asked for ever.
    fn input_after_thaw(&self, result: &Result<Change, FreezeError>) -> Input {
        match result {
            Ok(_) => Input::Thawed,
            Err(FreezeError::Agent(error)) if is_refusal(error) && !self.may_be_frozen() => {
                Input::Thawed
            }
            Err(_) => Input::MayBeFrozen,
        }
    }

    /// Whether the guest may be frozen: through this launcher or, as polls of the agent report, from inside of the
    /// guest.
    fn may_be_frozen(&self) -> bool {
        self.0.may_be_frozen.load(Ordering::Relaxed) || *self.0.cache.frozen().borrow()
    }

    async fn thaw_domain(&self) -> Result<Change, FreezeError> {
        let domain = self.domain().await?;
        // A thaw runs the guest's thaw hooks, so no thaw is sent to a guest that is thawed.
        if matches!(self.status(&domain).await, Ok(FreezeStatus::Thawed)) {
            return Ok(Change::None);
        }
        self.send(&domain, "guest-fsfreeze-thaw", THAW_TIMEOUT)
            .await?;
        self.record(FreezeStatus::Thawed);
        Ok(Change::Done)
    }

    async fn domain(&self) -> Result<Arc<dyn Domain>, CallError> {
        let client = &self.0.client;
        let domain = client.lookup().await?;
        domain.ok_or_else(|| CallError::no_domain(client.domain_name()))
    }

    async fn status(&self, domain: &Arc<dyn Domain>) -> Result<FreezeStatus, FreezeError> {
        let answer = self
            .send(domain, "guest-fsfreeze-status", AGENT_TIMEOUT)
            .await?;
        let status = answer_decoders::freeze_status(&answer)?;
        self.record(status);
        Ok(status)
    }

    async fn send(
        &self,
        domain: &Arc<dyn Domain>,
        command: &'static str,
        timeout: Duration,
    ) -> Result<String, CallError> {
        let json = format!(r#"{{"execute":"{command}"}}"#);
        let class = AGENT.within(timeout + LIBVIRT_MARGIN);
        let send = move |domain: &dyn Domain| command_agent(domain, &json, timeout);
        self.0
            .client
            .on(domain, "asking the guest agent", class, send)
            .await
    }

    fn record(&self, status: FreezeStatus) {
        let is_frozen = status == FreezeStatus::Frozen;
        self.0.was_frozen.store(is_frozen, Ordering::Relaxed);
        self.0.may_be_frozen.store(is_frozen, Ordering::Relaxed);
        self.0.cache.update(vec![AgentFact::FreezeStatus(status)]);
    }
}

fn is_unresponsive(error: &CallError) -> bool {
    matches!(error, CallError::Libvirt(error) if error.is_agent_unresponsive())
}

/// Whether the agent returned an error or is not connected.
fn is_refusal(error: &CallError) -> bool {
    match error {
        CallError::Libvirt(error) => matches!(
            error.code,
            code::AGENT_COMMAND_FAILED
                | code::AGENT_UNRESPONSIVE
                | code::ARGUMENT_UNSUPPORTED
                | code::OPERATION_INVALID
        ),
        CallError::NoAnswer(_) | CallError::NotEnded { .. } => false,
    }
}
