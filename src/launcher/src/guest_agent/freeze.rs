//! Freezes and thaws the guest's file systems through the agent. The safety thaw thaws a guest that nobody has thawed
//! in time.
//!
//! Freeze, thaw and safety thaw run one at a time. An attempt of the safety thaw belongs to one freeze: if the guest
//! was thawed and frozen again while the attempt waited, it does not end the new freeze.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use std::{fs, io};

use libvirt::{Domain, code};
use tokio::sync::{Mutex, mpsc};

use super::answer_decoders::AnswerError;
use super::guest_info_cache::{AgentFact, FreezeStatus, GuestInfoCache};
use super::{AGENT_TIMEOUT, LIBVIRT_MARGIN, answer_decoders, command_agent};
use crate::blocking;
use crate::blocking::NoAnswer;
use crate::libvirt_client::{AGENT, CallError, Client};
use crate::named_timers::NamedTimers;

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
            sync_tpm_state(self.0.tpm_state.clone()).await?;
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

/// How long writing to disk may take.
/// How long writing to disk may take.
const SYNC_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum depth of the directory tree. swtpm keeps a directory per VM with one directory of a few files.
const MAX_DEPTH: usize = 4;

/// The TPM's state could not be written to disk.
#[derive(Debug, thiserror::Error)]
pub enum TpmStateError {
    /// A file or directory cannot be read or written.
    #[error("writing the TPM's state to disk: {path}: {source}")]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The error of the file system.
        source: io::Error,
    },
    /// Writing to disk timed out.
    #[error(transparent)]
    NoAnswer(#[from] NoAnswer),
}

/// Writes all files below the directory to disk.
async fn sync_tpm_state(directory: PathBuf) -> Result<(), TpmStateError> {
    let sync_tpm_state = move || sync_tree(&directory, MAX_DEPTH);
    blocking::file_call(
        "writing the TPM's state to disk",
        SYNC_TIMEOUT,
        sync_tpm_state,
    )
    .await?
}

fn sync_tree(path: &Path, depth: usize) -> Result<(), TpmStateError> {
    let error = |source| TpmStateError::Io {
        path: path.to_owned(),
        source,
    };
    let kind = fs::symlink_metadata(path).map_err(error)?.file_type();
    if kind.is_dir() && depth > 0 {
        for entry in fs::read_dir(path).map_err(error)? {
            sync_tree(&entry.map_err(error)?.path(), depth - 1)?;
        }
    }
    if kind.is_dir() || kind.is_file() {
        File::open(path)
            .and_then(|file| file.sync_all())
            .map_err(error)?;
    }
    Ok(())
}

/// The state of the safety thaw's task. It is kept when the task is started again.
struct SafetyThawState {
    policy: SafetyThaw,
    timers: NamedTimers<()>,
    /// The number of the freeze to thaw.
    freeze: u64,
    received: mpsc::UnboundedReceiver<(u64, Input)>,
}

impl SafetyThawState {
    /// The state before the first freeze; `received` are the inputs, each with the number of its freeze.
    fn new(received: mpsc::UnboundedReceiver<(u64, Input)>) -> SafetyThawState {
        SafetyThawState {
            policy: SafetyThaw::default(),
            timers: NamedTimers::default(),
            freeze: 0,
            received,
        }
    }
}

impl Freezer {
    /// Passes an input to the task, with the number of its freeze.
    fn inform_safety_thaw(&self, number: u64, input: Input) {
        // Cannot fail: `self` holds the receiver.
        let _ = self.0.safety_thaw_inputs.send((number, input));
    }

    /// Runs the safety thaw; never ends by itself.
    pub(crate) async fn run_safety_thaw(&self) {
        let mut state = self.0.safety_thaw.lock().await;
        let SafetyThawState {
            policy,
            timers,
            freeze,
            received,
        } = &mut *state;
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
                        input = self.attempt_thaw(*freeze).await;
                        continue;
                    }
                }
                break;
            }
        }
    }

    /// Tries once to thaw the guest, and returns the result as input to the policy.
    async fn attempt_thaw(&self, freeze: u64) -> Input {
        let _operation = self.0.operation.lock().await;
        if self.0.freeze_count.load(Ordering::Relaxed) != freeze {
            // The guest was frozen again. The input for the new freeze is in the channel.
            return Input::Thawed;
        }
        if self.has_ended().await {
            return Input::Ended;
        }
        tracing::warn!("the guest was not thawed in time, or a thaw failed: it is thawed now");
        let result = self.thaw_domain().await;
        match &result {
            Ok(_) => tracing::info!("the guest is thawed"),
            Err(error) => tracing::warn!(reason = %error, "the guest could not be thawed"),
        }
        self.input_after_thaw(&result)
    }

    /// Whether libvirt reports that the guest does not run any more; false when libvirt cannot be reached.
    async fn has_ended(&self) -> bool {
        let domain = match self.0.client.lookup().await {
            Ok(domain) => domain,
            Err(_) => return false,
        };
        let Some(domain) = domain else { return true };
        let state = self.0.client.state_of(&domain).await;
        state.is_ok_and(|state| state.is_down())
    }
}

// The state machine that decides when a frozen guest is thawed without a request. Pure.
//
// ```text
//            frozen, with a limit               limit
//   [idle] ────────────────────────▶ [armed] ──────────▶ [thawing] ◀─┐
//     ▲                                 │                  │  └──────┘ failed: again, after a growing pause
//     └────────── thawed, ended ────────┴──────────────────┘
// ```
// A guest that stays frozen hangs at its next write, so the thaw is repeated until the guest is thawed or has ended.

/// The pause between two attempts: at first, and at most.
const RETRY_PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(10)];

/// An event that the state machine reacts to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Input {
    /// The file systems are frozen, and are thawed after this time if no thaw is requested before.
    Frozen(Option<Duration>),
    /// A freeze or thaw has failed, and the file systems may still be frozen.
    MayBeFrozen,
    /// The file systems are thawed.
    Thawed,
    /// The guest has ended.
    Ended,
    /// The timer has expired.
    Expired,
}

/// What the caller does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// Restart the timer.
    Arm(Duration),
    /// Stop the timer.
    Disarm,
    /// Thaw now, and pass the result as the next input.
    Thaw,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum State {
    #[default]
    Idle,
    Armed,
    Thawing {
        pause: Duration,
    },
}

/// The state machine.
#[derive(Debug, Default)]
struct SafetyThaw(State);

impl SafetyThaw {
    /// Takes an input, and returns the next step.
    fn observe(&mut self, input: Input) -> Step {
        let (state, step) = match (input, self.0) {
            (Input::Frozen(Some(limit)), _) => (State::Armed, Step::Arm(limit)),
            (Input::Frozen(None) | Input::Thawed | Input::Ended, _) => (State::Idle, Step::Disarm),
            (Input::MayBeFrozen, State::Thawing { pause }) => retry(pause),
            (Input::MayBeFrozen, State::Idle | State::Armed) => retry(RETRY_PAUSES[0]),
            (Input::Expired, State::Idle) => (State::Idle, Step::Disarm),
            (Input::Expired, State::Armed) => (
                State::Thawing {
                    pause: RETRY_PAUSES[0],
                },
                Step::Thaw,
            ),
            (Input::Expired, thawing) => (thawing, Step::Thaw),
        };
        self.0 = state;
        step
    }
}

fn retry(pause: Duration) -> (State, Step) {
    let longer = (pause * 2).min(RETRY_PAUSES[1]);
    (State::Thawing { pause: longer }, Step::Arm(pause))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[tokio::test]
    async fn error_contains_the_path_of_a_missing_directory() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("tpm2")).unwrap();
        fs::write(directory.path().join("tpm2/state"), b"x").unwrap();
        sync_tpm_state(directory.path().to_owned()).await.unwrap();
        let missing = directory.path().join("none");
        let error = sync_tpm_state(missing.clone())
            .await
            .unwrap_err()
            .to_string();
        assert!(error.contains(missing.to_str().unwrap()), "{error}");
    }

    const LIMIT: Duration = Duration::from_secs(300);

    #[test]
    fn thaw_is_retried_until_the_guest_is_thawed() {
        let mut policy = SafetyThaw::default();
        assert_eq!(policy.observe(Input::Frozen(Some(LIMIT))), Step::Arm(LIMIT));
        assert_eq!(policy.observe(Input::Expired), Step::Thaw);
        let mut pauses = Vec::new();
        for _ in 0..6 {
            match policy.observe(Input::MayBeFrozen) {
                Step::Arm(pause) => pauses.push(pause.as_secs()),
                other => unreachable!("{other:?}"),
            }
            assert_eq!(policy.observe(Input::Expired), Step::Thaw);
        }
        assert_eq!(pauses, [1, 2, 4, 8, 10, 10]);
        assert_eq!(policy.observe(Input::Thawed), Step::Disarm);
        assert_eq!(policy.observe(Input::Expired), Step::Disarm, "a late timer");
    }

    #[test]
    fn freeze_without_limit_ends_the_earlier_timer() {
        let mut policy = SafetyThaw::default();
        policy.observe(Input::Frozen(Some(LIMIT)));
        assert_eq!(policy.observe(Input::Frozen(None)), Step::Disarm);
        assert_eq!(policy.observe(Input::Expired), Step::Disarm);
    }

    fn any_input() -> impl Strategy<Value = Input> {
        prop_oneof![
            Just(Input::Frozen(Some(LIMIT))),
            Just(Input::Frozen(None)),
            Just(Input::MayBeFrozen),
            Just(Input::Thawed),
            Just(Input::Ended),
            Just(Input::Expired),
        ]
    }

    proptest! {
        /// While a thaw is required, a timer runs or an attempt is made; otherwise neither.
        #[test]
        fn required_thaw_is_always_pending(inputs in prop::collection::vec(any_input(), 0..40)) {
            let mut policy = SafetyThaw::default();
            let mut is_required = false;
            for input in inputs {
                is_required = match input {
                    Input::Frozen(limit) => limit.is_some(),
                    Input::MayBeFrozen => true,
                    Input::Thawed | Input::Ended => false,
                    Input::Expired => is_required,
                };
                let step = policy.observe(input);
                prop_assert_eq!(step != Step::Disarm, is_required);
            }
        }
    }
}
