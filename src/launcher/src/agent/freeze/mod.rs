//! Freezing and thawing the guest's file systems through the agent, and the safety thaw.
//!
//! Freeze, thaw and the safety thaw run one at a time. The safety thaw is bound to one freeze: an attempt that waited while
//! the guest was thawed and frozen again leaves the new freeze alone.

mod safety_thaw;
mod tpm_state;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use libvirt::{Domain, code};
use tokio::sync::{Mutex, mpsc};

use super::answer::{self, AnswerError};
use super::guest_info::{Fact, FreezeStatus, GuestInfoCache};
use super::{AGENT_TIMEOUT, LIBVIRT_MARGIN, command_agent};
use crate::libvirt_client::{AGENT, CallError, Client};
use crate::named_timers::NamedTimers;
use safety_thaw::{Input, SafetyThaw, Step};
pub(crate) use tpm_state::TpmStateError;

/// Windows takes most of a minute; virt-handler waits 60 s.
const FREEZE_TIMEOUT: Duration = Duration::from_secs(45);
/// virt-handler waits 20 s, for the status and the thaw.
const THAW_TIMEOUT: Duration = Duration::from_secs(8);

/// A freeze or thaw failed.
#[derive(Debug, thiserror::Error)]
pub enum FreezeError {
    /// libvirt or the agent refused, or gave no answer.
    #[error(transparent)]
    Agent(#[from] CallError),
    /// The agent's answer makes no sense.
    #[error(transparent)]
    Answer(#[from] AnswerError),
    /// The state of the persistent TPM cannot be written to disk.
    #[error(transparent)]
    TpmState(#[from] TpmStateError),
}

/// A request to freeze.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FreezeRequest {
    /// The guest is thawed after this time if nobody does before.
    pub thaw_after: Option<Duration>,
    /// The VM has a persistent TPM, whose state is written to disk too.
    pub persistent_tpm: bool,
}

/// Whether a freeze or thaw changed anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// It did.
    Done,
    /// The guest was in that state already.
    None,
    /// The guest has no file system that can be frozen, and its agent calls it thawed all the time.
    NothingToFreeze,
}

/// Freezes and thaws the guest. Clones are the same.
#[derive(Clone)]
pub struct Freezer(Arc<Inner>);

struct Inner {
    client: Client,
    cache: Arc<GuestInfoCache>,
    tpm_state: PathBuf,
    /// One freeze or thaw at a time.
    turn: Mutex<()>,
    /// Counts freezes.
    freeze: AtomicU64,
    /// The agent's last answer: the guest may have been reset since.
    was_frozen: AtomicBool,
    /// Whether the guest was frozen, or a freeze was sent whose outcome is unknown, and no status "thawed" came since.
    may_be_frozen: AtomicBool,
    inputs: mpsc::UnboundedSender<(u64, Input)>,
    safety: Mutex<Safety>,
}

/// What the task of the safety thaw keeps, also when it is started again.
struct Safety {
    policy: SafetyThaw,
    timers: NamedTimers<()>,
    /// The freeze that is to be thawed.
    freeze: u64,
    received: mpsc::UnboundedReceiver<(u64, Input)>,
}

impl Freezer {
    /// Nothing is frozen. `tpm_state` is the directory with the state of the TPM.
    pub(crate) fn new(client: Client, cache: Arc<GuestInfoCache>, tpm_state: PathBuf) -> Freezer {
        let (inputs, received) = mpsc::unbounded_channel();
        Freezer(Arc::new(Inner {
            client,
            cache,
            tpm_state,
            turn: Mutex::default(),
            freeze: AtomicU64::new(0),
            was_frozen: AtomicBool::new(false),
            may_be_frozen: AtomicBool::new(false),
            inputs,
            safety: Mutex::new(Safety {
                policy: SafetyThaw::default(),
                timers: NamedTimers::default(),
                freeze: 0,
                received,
            }),
        }))
    }

    /// Freezes the guest's file systems. A guest that is frozen already stays so, and keeps its time limit.
    pub(crate) async fn freeze(&self, request: FreezeRequest) -> Result<Change, FreezeError> {
        let _turn = self.0.turn.lock().await;
        let domain = self.domain().await?;
        if self.status(&domain).await? == FreezeStatus::Frozen {
            return Ok(Change::None);
        }
        if request.persistent_tpm {
            tpm_state::sync(self.0.tpm_state.clone()).await?;
        }
        let number = self.0.freeze.fetch_add(1, Ordering::Relaxed) + 1;
        match self
            .send(&domain, "guest-fsfreeze-freeze", FREEZE_TIMEOUT)
            .await
        {
            Ok(answer) if answer::frozen_count(&answer).is_ok_and(|count| count == 0) => {
                Ok(Change::NothingToFreeze)
            }
            Ok(_) => {
                self.inform_safety_thaw(number, Input::Frozen(request.thaw_after));
                self.record(FreezeStatus::Frozen);
                Ok(Change::Done)
            }
            Err(error) => {
                // An agent that was there for the status and then does not respond may have got the freeze.
                if !is_refusal(&error) || is_unresponsive(&error) {
                    // The agent may have frozen the file systems, or still do so: the safety thaw stays armed.
                    self.0.may_be_frozen.store(true, Ordering::Relaxed);
                    self.inform_safety_thaw(number, Input::MayBeFrozen);
                }
                Err(error.into())
            }
        }
    }

    /// Whether the guest's file systems are frozen.
    pub(crate) async fn is_frozen(&self) -> Result<bool, FreezeError> {
        let _turn = self.0.turn.lock().await;
        let domain = self.domain().await?;
        Ok(self.status(&domain).await? == FreezeStatus::Frozen)
    }

    /// Whether the guest was frozen through this launcher and is so still, as far as the agent tells. An agent that has
    /// crashed in a freeze keeps nobody from migrating: its answer was never that the guest is frozen.
    pub(crate) async fn keeps_frozen(&self) -> bool {
        // A guest that nobody has frozen is not asked.
        self.0.was_frozen.load(Ordering::Relaxed) && self.is_frozen().await.unwrap_or(true)
    }

    /// Thaws the guest's file systems. If that fails, it is tried again in the background, unless the guest is
    /// certainly not frozen.
    pub(crate) async fn thaw(&self) -> Result<Change, FreezeError> {
        let _turn = self.0.turn.lock().await;
        let number = self.0.freeze.load(Ordering::Relaxed);
        let thawed = self.thaw_domain().await;
        self.inform_safety_thaw(number, self.after_thaw(&thawed));
        thawed
    }

    /// What an attempt to thaw means for the safety thaw. A refusal to thaw a guest that was never frozen is no reason
    /// to try again: a guest without an agent would be asked for ever.
    fn after_thaw(&self, thawed: &Result<Change, FreezeError>) -> Input {
        match thawed {
            Ok(_) => Input::Thawed,
            Err(FreezeError::Agent(error)) if is_refusal(error) && !self.may_be_frozen() => {
                Input::Thawed
            }
            Err(_) => Input::MayBeFrozen,
        }
    }

    /// Through this launcher or, as polls of the agent tell, from inside of the guest.
    fn may_be_frozen(&self) -> bool {
        self.0.may_be_frozen.load(Ordering::Relaxed) || *self.0.cache.frozen().borrow()
    }

    async fn thaw_domain(&self) -> Result<Change, FreezeError> {
        let domain = self.domain().await?;
        // A thaw runs the guest's thaw hooks, so a guest that is thawed is not asked to.
        if matches!(self.status(&domain).await, Ok(FreezeStatus::Thawed)) {
            return Ok(Change::None);
        }
        self.send(&domain, "guest-fsfreeze-thaw", THAW_TIMEOUT)
            .await?;
        self.record(FreezeStatus::Thawed);
        Ok(Change::Done)
    }

    /// Carries out the safety thaw; never ends by itself.
    pub(crate) async fn run_safety_thaw(&self) {
        let mut safety = self.0.safety.lock().await;
        let Safety {
            policy,
            timers,
            freeze,
            received,
        } = &mut *safety;
        loop {
            let mut input = tokio::select! {
                // Never `None`: `self` holds a sender.
                Some((number, input)) = received.recv() => {
                    *freeze = number;
                    input
                }
                () = timers.expired() => Input::Expired,
            };
            loop {
                match policy.observe(input) {
                    Step::Arm(after) => timers.arm((), after),
                    Step::Disarm => timers.disarm(&()),
                    Step::Thaw => {
                        input = self.attempt(*freeze).await;
                        continue;
                    }
                }
                break;
            }
        }
    }

    /// One attempt to end a freeze that has lasted too long.
    async fn attempt(&self, freeze: u64) -> Input {
        let _turn = self.0.turn.lock().await;
        if self.0.freeze.load(Ordering::Relaxed) != freeze {
            // The input of the newer freeze waits.
            return Input::Thawed;
        }
        if self.has_ended().await {
            return Input::Ended;
        }
        tracing::warn!("the guest was not thawed in time, or a thaw failed: it is thawed now");
        let thawed = self.thaw_domain().await;
        match &thawed {
            Ok(_) => tracing::info!("the guest is thawed"),
            Err(error) => tracing::warn!(reason = %error, "the guest could not be thawed"),
        }
        self.after_thaw(&thawed)
    }

    /// Whether libvirt says that the guest does not run any more. A daemon that is away says nothing.
    async fn has_ended(&self) -> bool {
        let domain = match self.0.client.lookup().await {
            Ok(domain) => domain,
            Err(_) => return false,
        };
        let Some(domain) = domain else { return true };
        let state = self.0.client.state_of(&domain).await;
        state.is_ok_and(|state| state.is_down())
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
        let status = answer::freeze_status(&answer)?;
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
        self.0.cache.update(vec![Fact::FreezeStatus(status)]);
    }

    fn inform_safety_thaw(&self, number: u64, input: Input) {
        // Cannot fail: `self` holds the receiver.
        let _ = self.0.inputs.send((number, input));
    }
}

fn is_unresponsive(error: &CallError) -> bool {
    matches!(error, CallError::Libvirt(error) if error.is_agent_unresponsive())
}

/// Whether the agent refused, or is not connected.
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
