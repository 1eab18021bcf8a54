//! The answers to one call's questions about the pod.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::downward_api_files::NONE_GIVEN;
use super::{CallClock, PodConfig, PodFact, PodFiles, PodGrant, PodLayer, PodPattern};
use crate::blocking_work;

/// How often a fact that is waited for is looked for.
const POLL: Duration = Duration::from_millis(100);
/// The most questions of one call: each is kept for the record.
const MAX_QUESTIONS: usize = 256;

/// The most bytes of the questions and answers of one call, all of which are kept for the record: 16 times the annotations
/// that the API server permits a pod.
const MAX_KEPT: usize = 4 << 20;

/// Where answers come from.
#[derive(Clone, Default)]
pub(crate) enum PodFactSource {
    /// This host has none.
    #[default]
    None,
    /// The files of the pod.
    Files(Arc<PodFiles>),
    /// A record, in the order of the questions.
    Recorded(Arc<Vec<PodFactEntry>>),
}

/// The facts about the pod that a call may read. `Default` has none.
#[derive(Clone, Default)]
pub struct PodAccess {
    pub(crate) facts: PodFactSource,
    pub(crate) grant: Arc<PodGrant>,
}

/// Why a fact is not given. The text names the fact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum FactError {
    /// It is not granted.
    Denied(String),
    /// It is not there.
    Absent(String),
    /// It cannot be seen.
    Unreadable(String),
}

/// A question of a hook, and its answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodFactEntry {
    /// The fact, such as `annotations/KEY`.
    pub fact: String,
    /// Whether the hook waits for it.
    pub wait: bool,
    /// The fact as text; none if it is not there. Networks are a JSON list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Why there is no answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<FactError>,
    /// Whether a record may have the value.
    #[serde(skip)]
    pub(crate) is_recorded: bool,
    /// Whether the value may be a password or a key.
    #[serde(skip)]
    pub(crate) may_be_secret: bool,
}

impl PodFactEntry {
    /// Whether the hook read what may be a password or a key, and records may not have it.
    pub(crate) fn is_withheld_secret(&self) -> bool {
        self.may_be_secret && !self.is_recorded && self.value.is_some()
    }
}

/// The questions of one call.
#[derive(Clone)]
pub(crate) struct PodFactReader {
    access: PodAccess,
    clock: CallClock,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    reads: Vec<PodFactEntry>,
    /// The bytes of the names and values in `reads`.
    kept: usize,
    waited: Duration,
    /// Recorded answers that were given.
    given: Vec<usize>,
}

impl PodAccess {
    /// The facts that `patterns` name, of the files that `config` names.
    #[must_use]
    pub fn new(config: PodConfig, patterns: Vec<PodPattern>) -> Self {
        let wishes = PodLayer {
            patterns,
            origin: "wishes.pod in its description".to_owned(),
        };
        let grant = PodGrant {
            layers: vec![wishes],
            recorded: Vec::new(),
        };
        Self {
            facts: PodFactSource::Files(Arc::new(PodFiles::new(config))),
            grant: Arc::new(grant),
        }
    }
}

impl fmt::Debug for PodAccess {
    /// Without facts: they may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PodAccess")
            .field("grant", &self.grant)
            .finish_non_exhaustive()
    }
}

impl PodFactReader {
    pub(crate) fn new(access: PodAccess, clock: CallClock) -> Self {
        Self {
            access,
            clock,
            state: Arc::default(),
        }
    }

    /// The questions so far, with their answers.
    pub(crate) fn take_reads(&self) -> Vec<PodFactEntry> {
        std::mem::take(&mut self.locked().reads)
    }

    /// How long the call waited for facts.
    pub(crate) fn waited(&self) -> Duration {
        self.locked().waited
    }

    /// The text of a fact; `None` if it is not there and is not waited for.
    pub(crate) async fn ask(&self, fact: PodFact, wait: bool) -> Result<Option<String>, FactError> {
        // A name of the length of the guest's memory is not kept, nor copied into an error.
        fact.check_length().map_err(FactError::Denied)?;
        if self.locked().reads.len() >= MAX_QUESTIONS {
            let text = format!("{fact}: a call may ask for {MAX_QUESTIONS} facts at most");
            return Err(FactError::Unreadable(text));
        }
        let name = fact.to_string();
        let (is_recorded, may_be_secret) = (self.access.grant.records(&name), fact.may_be_secret());
        let answer = match &self.access.facts {
            PodFactSource::Recorded(reads) => self.replay(reads, &name, wait),
            facts => self.read(facts, fact, wait).await,
        };
        let answer = self.within_limit(&name, answer);
        let (value, error) = match &answer {
            Ok(value) => (value.clone(), None),
            Err(error) => (None, Some(error.clone())),
        };
        self.locked().reads.push(PodFactEntry {
            fact: name,
            wait,
            value,
            error,
            is_recorded,
            may_be_secret,
        });
        answer
    }

    /// The answer, or an error in place of a value with which the call's answers are too large.
    fn within_limit(
        &self,
        name: &str,
        answer: Result<Option<String>, FactError>,
    ) -> Result<Option<String>, FactError> {
        let mut state = self.locked();
        let value = answer.as_ref().ok().and_then(Option::as_ref);
        let bytes = name.len() + value.map_or(0, String::len);
        if value.is_none() || state.kept + bytes <= MAX_KEPT {
            state.kept += bytes;
            return answer;
        }
        state.kept += name.len();
        let most = MAX_KEPT >> 20;
        Err(FactError::Unreadable(format!(
            "{name}: the facts that a call asks for may have {most} MiB together: keep an answer instead of asking again"
        )))
    }

    async fn read(
        &self,
        facts: &PodFactSource,
        fact: PodFact,
        wait: bool,
    ) -> Result<Option<String>, FactError> {
        let fact = fact.checked().map_err(FactError::Denied)?;
        self.access.grant.check(&fact).map_err(FactError::Denied)?;
        let PodFactSource::Files(files) = facts else {
            let text = format!("{fact}: {NONE_GIVEN}");
            return Err(FactError::Unreadable(text));
        };
        let found = read_fact(files, &fact).await?;
        if found.is_some() || !wait {
            return Ok(found);
        }
        let left = files.wait.saturating_sub(self.waited());
        let most = self.clock.defer(left);
        if !most.is_zero() {
            tracing::info!(%fact, "a hook waits for a fact about the pod that is not there yet");
        }
        let started = Instant::now();
        let found = await_fact(files, &fact, started + most).await;
        let took = started.elapsed().min(most);
        self.clock.advance(most - took);
        self.locked().waited += took;
        match found {
            Ok(None) => Err(FactError::Absent(absent(&fact, took, most < left))),
            other => other,
        }
    }

    /// The recorded answer: the first to this question that was not given yet, or else the last.
    fn replay(
        &self,
        reads: &[PodFactEntry],
        name: &str,
        wait: bool,
    ) -> Result<Option<String>, FactError> {
        let mut state = self.locked();
        let same = |(_, read): &(usize, &PodFactEntry)| read.fact == name && read.wait == wait;
        let mut matching = reads.iter().enumerate().filter(same);
        let next = matching.clone().find(|(at, _)| !state.given.contains(at));
        let Some((at, read)) = next.or_else(|| matching.next_back()) else {
            let text = format!("the record has no answer about {name}: it was not asked for");
            return Err(FactError::Absent(text));
        };
        state.given.push(at);
        match &read.error {
            Some(error) => Err(error.clone()),
            None => Ok(read.value.clone()),
        }
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The fact as the files have it now.
async fn read_fact(files: &Arc<PodFiles>, fact: &PodFact) -> Result<Option<String>, FactError> {
    let (files, wanted) = (Arc::clone(files), fact.clone());
    let read = blocking_work::run(move || files.read(&wanted)).await;
    let read = read.unwrap_or_else(|error| Err(error.to_string()));
    read.map_err(|reason| FactError::Unreadable(format!("{fact}: {reason}")))
}

async fn await_fact(
    files: &Arc<PodFiles>,
    fact: &PodFact,
    end: Instant,
) -> Result<Option<String>, FactError> {
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return read_fact(files, fact).await;
        }
        tokio::time::sleep(left.min(POLL)).await;
        if let Some(found) = read_fact(files, fact).await? {
            return Ok(Some(found));
        }
    }
}

fn absent(fact: &PodFact, waited: Duration, is_cut: bool) -> String {
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
