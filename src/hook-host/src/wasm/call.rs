//! One call of one hook, on a fresh store, within its limits.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use wasmtime::{Store, Trap, UpdateDeadline, WasmBacktrace};

use super::budget::{MemoryLimit, TableLimit};
use super::load::Host;
use super::state::{Facts, State};
use super::v0_1;
use crate::{HookPoint, Invocation, Limits, LogLevel, LogLine};

/// Of a hook's own words, as much as goes into an error.
const MAX_MESSAGE: usize = 2048;
/// What a guest hands over at once may cost the host this many times its output limit.
const TRANSFER_FACTOR: usize = 2;

/// One hook point with what the hook is given.
#[derive(Debug, Clone)]
pub enum Call<'a> {
    /// The VMI as JSON.
    PreStart {
        /// The VMI as JSON.
        vmi: &'a str,
    },
    /// Cloud-init documents in, and all of them out again.
    PreCloudInitIso {
        /// The VMI as JSON.
        vmi: &'a str,
        /// `noCloud` or `configDrive`.
        data_source: &'a str,
        /// Names (`user-data`, `network-data`, `meta-data`) and texts.
        documents: &'a [(String, String)],
    },
    /// The domain XML in and out.
    OnDefineDomain {
        /// The VMI as JSON.
        vmi: &'a str,
        /// The whole domain.
        domain_xml: &'a str,
    },
    /// The launcher ends.
    Shutdown,
}

/// What a hook gives back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Nothing more to say (pre-start, shutdown).
    Done,
    /// All cloud-init documents.
    Documents(Vec<(String, String)>),
    /// The whole domain XML, unchecked.
    DomainXml(String),
}

/// For whom a hook is called, and what it may ask the host.
#[derive(Debug, Clone, Default)]
pub struct Context {
    /// Whose hooks run, and why.
    pub invocation: Invocation,
    /// What was configured for this hook.
    pub config: BTreeMap<String, String>,
    /// When the call must be over, if sooner than the hook's own limit says.
    pub time_left: Option<Duration>,
    /// What this hook may use, if other than what the loader was given.
    pub limits: Option<Limits>,
    /// Directories that it may read, under the same names.
    pub dirs: Vec<PathBuf>,
    /// What is to be the same in every run of this call.
    pub fixed: Option<Fixed>,
}

/// What a guest can learn that differs from run to run. Time that passes is not among it: a hook
/// that measures its own runtime is not to be replayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fixed {
    /// All random numbers, over and over.
    pub seed: [u8; 32],
    /// The time of day since 1970, which stands still.
    pub time: Duration,
}

/// How a call went: its answer, and what it cost.
#[derive(Debug, Clone)]
pub struct Called {
    /// The answer.
    pub result: Result<Answer, CallError>,
    /// What the hook logged, its standard streams included.
    pub log: Vec<LogLine>,
    /// Instantiation, the call and the host's part in it.
    pub duration: Duration,
    /// Of all its linear memories together, in bytes.
    pub peak_memory: usize,
}

/// Why a call gave no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The hook says no.
    #[error("it refuses: {0}")]
    Veto(String),
    /// The hook could not do its work.
    #[error("it failed: {0}")]
    Failed(String),
    /// The hook crashed or wanted more memory than it may have.
    #[error("it crashed: {0}")]
    Trap(String),
    /// It took longer than it had.
    #[error("it did not answer within {0:?}")]
    Deadline(Duration),
    /// The host could not call it as it should.
    #[error("it was not called: {0}")]
    Host(String),
    /// What it was to be given is larger than `Limits::output`.
    #[error("{what} has {size} bytes, more than the {limit} a hook may be given")]
    InputTooLarge {
        /// What.
        what: &'static str,
        /// Its bytes.
        size: usize,
        /// The limit.
        limit: usize,
    },
    /// What it gave back is larger than `Limits::output`.
    #[error("its answer has {size} bytes, more than the {limit} it may give back")]
    OutputTooLarge {
        /// Bytes of all texts together.
        size: usize,
        /// The limit.
        limit: usize,
    },
}

impl Call<'_> {
    /// Where.
    #[must_use]
    pub fn point(&self) -> HookPoint {
        match self {
            Self::PreStart { .. } => HookPoint::PreStart,
            Self::PreCloudInitIso { .. } => HookPoint::PreCloudInitIso,
            Self::OnDefineDomain { .. } => HookPoint::OnDefineDomain,
            Self::Shutdown => HookPoint::Shutdown,
        }
    }

    fn check(&self, limit: usize) -> Result<(), CallError> {
        let (vmi, what, size) = match self {
            Self::PreStart { vmi } => (*vmi, "the VMI", 0),
            Self::PreCloudInitIso { vmi, documents, .. } => {
                (*vmi, "the cloud-init data", size_of_documents(documents))
            }
            Self::OnDefineDomain { vmi, domain_xml } => (*vmi, "the domain XML", domain_xml.len()),
            Self::Shutdown => return Ok(()),
        };
        for (what, size) in [("the VMI", vmi.len()), (what, size)] {
            if size > limit {
                return Err(CallError::InputTooLarge { what, size, limit });
            }
        }
        Ok(())
    }
}

impl Answer {
    fn check(&self, limit: usize) -> Result<(), CallError> {
        let size = match self {
            Self::Done => 0,
            Self::Documents(documents) => size_of_documents(documents),
            Self::DomainXml(xml) => xml.len(),
        };
        if size > limit {
            Err(CallError::OutputTooLarge { size, limit })
        } else {
            Ok(())
        }
    }
}

fn size_of_documents(documents: &[(String, String)]) -> usize {
    documents
        .iter()
        .map(|(name, text)| name.len() + text.len())
        .sum()
}

/// What is run on the fresh store.
enum Work<'a> {
    Describe,
    Call(&'a Call<'a>),
}

/// What comes out of it; a description travels as text.
enum Product {
    Description(String),
    Answer(Answer),
}

/// Calls a hook point.
pub(super) async fn call(
    host: &Host,
    hook: &v0_1::Hook,
    name: &str,
    context: &Context,
    call: &Call<'_>,
) -> Called {
    let limits = context.limits.as_ref().unwrap_or(&host.limits);
    let started = Instant::now();
    let refused = |error| Called {
        result: Err(error),
        log: Vec::new(),
        duration: started.elapsed(),
        peak_memory: 0,
    };
    if let Err(error) = call.check(limits.output) {
        return refused(error);
    }
    let facts = facts(host, name, call.point(), &context.invocation);
    let state = match State::new(facts, context, limits) {
        Ok(state) => state,
        Err(reason) => return refused(CallError::Host(reason)),
    };
    let deadline = context
        .time_left
        .map_or(limits.call_deadline, |left| left.min(limits.call_deadline));
    let (result, log, peak_memory) =
        run(host, limits, hook, state, deadline, &Work::Call(call)).await;
    let result = result.and_then(|product| match product {
        Product::Answer(answer) => answer.check(limits.output).map(|()| answer),
        Product::Description(_) => Ok(Answer::Done),
    });
    Called {
        result,
        log,
        duration: started.elapsed(),
        peak_memory,
    }
}

/// Asks a hook what it is.
pub(super) async fn describe(
    host: &Host,
    hook: &v0_1::Hook,
) -> (Result<String, CallError>, Vec<LogLine>) {
    let state = match State::new(Facts::new(), &Context::default(), &host.limits) {
        Ok(state) => state,
        Err(reason) => return (Err(CallError::Host(reason)), Vec::new()),
    };
    let deadline = host.limits.call_deadline;
    let (result, log, _) = run(host, &host.limits, hook, state, deadline, &Work::Describe).await;
    let text = result.map(|product| match product {
        Product::Description(text) => text,
        Product::Answer(_) => String::new(),
    });
    (text, log)
}

/// A guest in a loop is stopped by the epoch, a guest that waits for the host by the timer.
async fn run(
    host: &Host,
    limits: &Limits,
    hook: &v0_1::Hook,
    state: State,
    deadline: Duration,
    work: &Work<'_>,
) -> (Result<Product, CallError>, Vec<LogLine>, usize) {
    let journal = state.journal.clone();
    let mut store = Store::new(&host.engine, state);
    confine(&mut store, limits, Instant::now() + deadline);
    let ticking = match host.ticker.start() {
        Ok(ticking) => ticking,
        Err(error) => {
            let message = format!("no thread to watch its deadline: {error}");
            return (Err(CallError::Trap(message)), Vec::new(), 0);
        }
    };
    let outcome = tokio::time::timeout(deadline, async {
        match work {
            Work::Describe => hook
                .describe(&mut store)
                .await
                .map(|t| Ok(Product::Description(t))),
            Work::Call(call) => hook
                .call(&mut store, call)
                .await
                .map(|answer| answer.map(Product::Answer)),
        }
    })
    .await;
    drop(ticking);
    let log = journal.take();
    let result = match outcome {
        Err(_) => Err(CallError::Deadline(deadline)),
        Ok(Err(error)) => Err(crash(&error, &log, deadline, limits.output)),
        Ok(Ok(result)) => result.map_err(cut),
    };
    (result, log, store.data().budget.peak_memory())
}

fn confine(store: &mut Store<State>, limits: &Limits, end: Instant) {
    store.limiter(|state| &mut state.budget);
    // Lists of strings that all point at the same bytes would multiply in the host.
    store.set_hostcall_fuel(limits.output.saturating_mul(TRANSFER_FACTOR));
    store.set_epoch_deadline(1);
    store.epoch_deadline_callback(move |_| {
        let over = Instant::now() >= end;
        Ok(if over {
            UpdateDeadline::Interrupt
        } else {
            UpdateDeadline::Yield(1)
        })
    });
}

fn facts(host: &Host, name: &str, point: HookPoint, invocation: &Invocation) -> Facts {
    Facts::from([
        ("reason", invocation.reason.name().to_owned()),
        ("hook-point", point.name().to_owned()),
        ("hook", name.to_owned()),
        ("namespace", invocation.namespace.clone()),
        ("name", invocation.name.clone()),
        ("uid", invocation.uid.clone()),
        ("domain", invocation.domain.clone()),
        ("host", host.name.clone()),
    ])
}

/// Says what stopped a guest, in words for its author.
fn crash(error: &wasmtime::Error, log: &[LogLine], deadline: Duration, output: usize) -> CallError {
    if let Some(limit) = error.downcast_ref::<MemoryLimit>() {
        return CallError::Trap(limit.to_string());
    }
    if let Some(limit) = error.downcast_ref::<TableLimit>() {
        return CallError::Trap(limit.to_string());
    }
    let place = place(error);
    let text = match error.downcast_ref::<Trap>() {
        Some(Trap::Interrupt) => return CallError::Deadline(deadline),
        Some(Trap::StackOverflow) => format!("its stack overflowed{place}"),
        Some(Trap::MemoryOutOfBounds) => {
            format!("it left its memory, most often by recursing too deeply{place}")
        }
        Some(Trap::UnreachableCodeReached) => panic_message(log)
            .unwrap_or_else(|| format!("it reached what it held to be unreachable{place}")),
        Some(other) => format!("{other}{place}"),
        // wasmtime keeps the type of this one to itself.
        None if error
            .root_cause()
            .to_string()
            .contains("fuel allocated for hostcalls") =>
        {
            format!("it handed over more than {TRANSFER_FACTOR} times {output} bytes at once")
        }
        None => format!("{}{place}", error.root_cause()),
    };
    CallError::Trap(shorten(&text))
}

/// The innermost function that has a name.
fn place(error: &wasmtime::Error) -> String {
    let frames = error
        .downcast_ref::<WasmBacktrace>()
        .map(WasmBacktrace::frames)
        .unwrap_or_default();
    let name = frames.iter().find_map(|frame| frame.func_name());
    name.map(|name| format!(" in {}", name)).unwrap_or_default()
}

/// What a Rust guest wrote before it gave up: from "panicked at" on, without the hint that follows.
fn panic_message(log: &[LogLine]) -> Option<String> {
    let errors: Vec<&str> = log
        .iter()
        .filter(|line| line.level == LogLevel::Error)
        .map(|line| line.message.trim())
        .collect();
    let start = errors
        .iter()
        .rposition(|line| line.contains("panicked at"))?;
    let said = errors[start..]
        .iter()
        .filter(|line| !line.starts_with("note: "));
    Some(said.copied().collect::<Vec<_>>().join(" "))
}

fn cut(error: CallError) -> CallError {
    match error {
        CallError::Veto(text) => CallError::Veto(shorten(&text)),
        CallError::Failed(text) => CallError::Failed(shorten(&text)),
        other => other,
    }
}

fn shorten(text: &str) -> String {
    if text.len() <= MAX_MESSAGE {
        return text.to_owned();
    }
    let mut end = MAX_MESSAGE;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{} ...", &text[..end])
}
