//! Answers the questions of one call about the pod.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::downward_api::NO_FACTS_GIVEN;
use super::{DownwardApiFiles, FactError, PodAccess, PodFact, PodFactEntry, PodFactSource};
use crate::blocking_work;

/// The interval in which the files are read again while a call waits for a fact.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Maximum number of questions of one call, all of which are kept for the record.
const MAX_QUESTIONS: usize = 256;
/// Maximum bytes of the questions and answers of one call, all of which are kept for the record: 16 times the
/// annotations that the API server permits a pod.
const MAX_KEPT_BYTES: usize = 4 << 20;

/// Answers the questions of one call, and keeps both for the record.
#[derive(Clone)]
pub(crate) struct PodFactReader {
    access: PodAccess,
    clock: CallDeadline,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    reads: Vec<PodFactEntry>,
    /// Bytes of the names and values in `reads`.
    kept_bytes: usize,
    /// How long the call has waited for facts.
    waited: Duration,
    /// Indices of the recorded answers that a replay has used.
    replayed: Vec<usize>,
}

impl PodFactReader {
    pub(crate) fn new(access: PodAccess, clock: CallDeadline) -> Self {
        Self {
            access,
            clock,
            state: Arc::default(),
        }
    }

    /// Removes and returns the questions so far, with their answers.
    pub(crate) fn take_reads(&self) -> Vec<PodFactEntry> {
        std::mem::take(&mut self.lock().reads)
    }

    /// How long the call has waited for facts.
    pub(crate) fn waited(&self) -> Duration {
        self.lock().waited
    }

    /// The text of a fact; `None` if the pod does not have the fact and `wait` is false.
    pub(crate) async fn ask(&self, fact: PodFact, wait: bool) -> Result<Option<String>, FactError> {
        // A name can be as long as the guest's memory, so it is neither kept nor copied into an error.
        fact.check_length().map_err(FactError::Denied)?;
        if self.lock().reads.len() >= MAX_QUESTIONS {
            let text = format!("{fact}: a call may ask for {MAX_QUESTIONS} facts at most");
            return Err(FactError::Unreadable(text));
        }
        let name = fact.to_string();
        let (may_be_recorded, may_be_secret) =
            (self.access.grant.records(&name), fact.may_be_secret());
        let answer = match &self.access.facts {
            PodFactSource::Recorded(reads) => self.replay(reads, &name, wait),
            facts => self.read(facts, fact, wait).await,
        };
        let answer = self.limit_kept_bytes(&name, answer);
        let (value, error) = match &answer {
            Ok(value) => (value.clone(), None),
            Err(error) => (None, Some(error.clone())),
        };
        self.lock().reads.push(PodFactEntry {
            fact: name,
            wait,
            value,
            error,
            may_be_recorded,
            may_be_secret,
        });
        answer
    }

    /// Returns the answer, or an error instead of a value that would exceed [`MAX_KEPT_BYTES`].
    fn limit_kept_bytes(
        &self,
        name: &str,
        answer: Result<Option<String>, FactError>,
    ) -> Result<Option<String>, FactError> {
        let mut state = self.lock();
        let value = answer.as_ref().ok().and_then(Option::as_ref);
        let bytes = name.len() + value.map_or(0, String::len);
        if value.is_none() || state.kept_bytes + bytes <= MAX_KEPT_BYTES {
            state.kept_bytes += bytes;
            return answer;
        }
        state.kept_bytes += name.len();
        let mebibytes = MAX_KEPT_BYTES >> 20;
        Err(FactError::Unreadable(format!(
            "{name}: the facts that a call asks for may have {mebibytes} MiB together: keep an answer instead of asking again"
        )))
    }

    async fn read(
        &self,
        facts: &PodFactSource,
        fact: PodFact,
        wait: bool,
    ) -> Result<Option<String>, FactError> {
        let fact = fact.validated().map_err(FactError::Denied)?;
        self.access.grant.check(&fact).map_err(FactError::Denied)?;
        let PodFactSource::Files(files) = facts else {
            let text = format!("{fact}: {NO_FACTS_GIVEN}");
            return Err(FactError::Unreadable(text));
        };
        let value = read_fact(files, &fact).await?;
        if value.is_some() || !wait {
            return Ok(value);
        }
        let remaining_wait = files.wait.saturating_sub(self.waited());
        let max_wait = self.clock.defer(remaining_wait);
        if !max_wait.is_zero() {
            tracing::info!(%fact, "a hook waits for a fact about the pod that is not there yet");
        }
        let started = Instant::now();
        let result = await_fact(files, &fact, started + max_wait).await;
        let took = started.elapsed().min(max_wait);
        self.clock.advance(max_wait - took);
        self.lock().waited += took;
        match result {
            Ok(None) => Err(FactError::Absent(absence_text(
                &fact,
                took,
                max_wait < remaining_wait,
            ))),
            other => other,
        }
    }

    /// The recorded answer: the first to this question that this replay has not used yet, or else the last.
    fn replay(
        &self,
        reads: &[PodFactEntry],
        name: &str,
        wait: bool,
    ) -> Result<Option<String>, FactError> {
        let mut state = self.lock();
        let is_same_question =
            |(_, read): &(usize, &PodFactEntry)| read.fact == name && read.wait == wait;
        let mut matching = reads.iter().enumerate().filter(is_same_question);
        let next = matching
            .clone()
            .find(|(at, _)| !state.replayed.contains(at));
        let Some((at, read)) = next.or_else(|| matching.next_back()) else {
            let text = format!("the record has no answer about {name}: it was not asked for");
            return Err(FactError::Absent(text));
        };
        state.replayed.push(at);
        match &read.error {
            Some(error) => Err(error.clone()),
            None => Ok(read.value.clone()),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads the fact from the files.
async fn read_fact(
    files: &Arc<DownwardApiFiles>,
    fact: &PodFact,
) -> Result<Option<String>, FactError> {
    let (files, owned_fact) = (Arc::clone(files), fact.clone());
    let read = blocking_work::run(move || files.read(&owned_fact)).await;
    let read = read.unwrap_or_else(|error| Err(error.to_string()));
    read.map_err(|reason| FactError::Unreadable(format!("{fact}: {reason}")))
}

/// Reads the fact until the files have it, or until `end`.
async fn await_fact(
    files: &Arc<DownwardApiFiles>,
    fact: &PodFact,
    end: Instant,
) -> Result<Option<String>, FactError> {
    loop {
        let remaining = end.saturating_duration_since(Instant::now());
        if remaining.is_zero() {
            return read_fact(files, fact).await;
        }
        tokio::time::sleep(remaining.min(POLL_INTERVAL)).await;
        if let Some(value) = read_fact(files, fact).await? {
            return Ok(Some(value));
        }
    }
}

/// The error text; `is_cut` means that the deadline of the hook point shortened the wait.
fn absence_text(fact: &PodFact, waited: Duration, is_cut: bool) -> String {
    let cut = match is_cut {
        true => ", all that the deadline of the hook point left",
        false => "",
    };
    match waited.is_zero() {
        true if is_cut => {
            format!("{fact} is not there, and the hook point's deadline leaves no time to wait")
        }
        true => format!("{fact} is not there"),
        false => format!("{fact} is not there; it was waited for {waited:.1?}{cut}"),
    }
}

/// The deadline of a call, which is deferred while the call waits for a fact.
#[derive(Clone)]
pub(crate) struct CallDeadline {
    deadlines: Arc<Mutex<Deadlines>>,
}

struct Deadlines {
    call: Instant,
    /// The deadline of all calls of the hook point, which is never deferred.
    chain: Option<Instant>,
}

impl CallDeadline {
    pub(crate) fn new(call: Instant, chain: Option<Instant>) -> Self {
        let deadlines = Deadlines { call, chain };
        Self {
            deadlines: Arc::new(Mutex::new(deadlines)),
        }
    }

    /// The deadline of the call.
    pub(crate) fn end(&self) -> Instant {
        self.lock().call
    }

    /// Defers the deadline by at most `max`, and not beyond the chain's deadline. Returns the time by which it was
    /// deferred.
    pub(super) fn defer(&self, max: Duration) -> Duration {
        let mut deadlines = self.lock();
        let remaining = |chain: Instant| chain.saturating_duration_since(deadlines.call);
        let by = deadlines
            .chain
            .map_or(max, |chain| max.min(remaining(chain)));
        deadlines.call += by;
        by
    }

    /// Moves the deadline back by the part of the last [`Self::defer`] that was not needed.
    pub(super) fn advance(&self, by: Duration) {
        let mut deadlines = self.lock();
        deadlines.call = deadlines.call.checked_sub(by).unwrap_or(deadlines.call);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Deadlines> {
        self.deadlines
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
