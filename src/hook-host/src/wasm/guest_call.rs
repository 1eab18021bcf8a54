//! Runs a guest function on a fresh store, within its limits.

use std::time::{Duration, Instant};

use wasmtime::{Store, UpdateDeadline};

use super::call_and_answer::{Answer, Call, CallContext, CallError, CallReport};
use super::file_io_threads;
use super::shared_engine::EngineHost;
use super::store_state::{InvocationFacts, StoreState};
use super::trap_explanation::{TRANSFER_FACTOR, shorten_message, trap_error};
use super::wit_versions::HookBinding;
use crate::pod_facts::{CallClock, PodFactReader};
use crate::{HookPoint, Invocation, Limits, LogLine};

/// The guest function to run on the fresh store.
enum GuestFunction<'a> {
    Describe,
    Call(&'a Call<'a>),
}

/// The value that the guest function returned; a description is still JSON text.
enum GuestResult {
    Description(String),
    Answer(Answer),
}

/// Calls a hook at one hook point.
pub(super) async fn call(
    host: &EngineHost,
    hook: &HookBinding,
    name: &str,
    context: &CallContext,
    call: &Call<'_>,
) -> CallReport {
    let work = call_with_threads(host, hook, name, context, call);
    if context.dirs.is_empty() {
        return work.await;
    }
    let report = file_io_threads::run(work).await;
    report.unwrap_or_else(|reason| refused(CallError::Host(reason), Duration::ZERO))
}

/// The report of a call that never began.
fn refused(error: CallError, duration: Duration) -> CallReport {
    CallReport {
        result: Err(error),
        log: Vec::new(),
        duration,
        peak_memory: 0,
        facts: Vec::new(),
        waited: Duration::ZERO,
    }
}

/// Calls a hook; blocking operations use the threads of the runtime that polls the call.
async fn call_with_threads(
    host: &EngineHost,
    hook: &HookBinding,
    name: &str,
    context: &CallContext,
    call: &Call<'_>,
) -> CallReport {
    let limits = context.limits.as_ref().unwrap_or(&host.limits);
    let started = Instant::now();
    let refused = |error| refused(error, started.elapsed());
    if let Err(error) = call.check_size(limits.output) {
        return refused(error);
    }
    let facts = invocation_facts(host, name, call.point(), &context.invocation);
    let deadline = context
        .time_left
        .map_or(limits.call_deadline, |left| left.min(limits.call_deadline));
    let chain_end = context.time_left.map(|left| started + left);
    let clock = CallClock::new(Instant::now() + deadline, chain_end);
    let questions = PodFactReader::new(context.pod.clone(), clock.clone());
    let opened = StoreState::open(facts, context, limits, questions.clone());
    let state = match within(&clock, opened).await {
        Some(Ok(state)) => state,
        Some(Err(reason)) => return refused(CallError::Host(reason)),
        None => return refused(CallError::Deadline(deadline)),
    };
    let work = GuestFunction::Call(call);
    let ran = run(host, limits, hook, state, (deadline, clock), &work).await;
    let (result, log, peak_memory) = ran;
    let result = result.and_then(|product| match product {
        GuestResult::Answer(answer) => answer.check_size(limits.output).map(|()| answer),
        GuestResult::Description(_) => Ok(Answer::Done),
    });
    CallReport {
        result,
        log,
        duration: started.elapsed(),
        peak_memory,
        facts: questions.take_reads(),
        waited: questions.waited(),
    }
}

/// Calls the guest's `describe`.
pub(super) async fn describe(
    host: &EngineHost,
    hook: &HookBinding,
) -> (Result<String, CallError>, Vec<LogLine>) {
    let deadline = host.limits.call_deadline;
    let clock = CallClock::new(Instant::now() + deadline, None);
    let (facts, context) = (InvocationFacts::new(), CallContext::default());
    let questions = PodFactReader::new(context.pod.clone(), clock.clone());
    let state = match StoreState::new(facts, &context, &host.limits, questions) {
        Ok(state) => state,
        Err(reason) => return (Err(CallError::Host(reason)), Vec::new()),
    };
    let work = GuestFunction::Describe;
    let ran = run(host, &host.limits, hook, state, (deadline, clock), &work).await;
    let (result, log, _) = ran;
    let text = result.map(|product| match product {
        GuestResult::Description(text) => text,
        GuestResult::Answer(_) => String::new(),
    });
    (text, log)
}

/// Runs a guest function. The epoch interrupts a guest that loops, the timer one that waits for the host.
async fn run(
    host: &EngineHost,
    limits: &Limits,
    hook: &HookBinding,
    state: StoreState,
    (deadline, clock): (Duration, CallClock),
    work: &GuestFunction<'_>,
) -> (Result<GuestResult, CallError>, Vec<LogLine>, usize) {
    let log = state.log.clone();
    let mut store = Store::new(&host.engine, state);
    set_store_limits(&mut store, limits, clock.clone());
    let guard = match host.ticker.begin_call() {
        Ok(guard) => guard,
        Err(error) => {
            let message = format!("no thread to watch its deadline: {error}");
            return (Err(CallError::Trap(message)), Vec::new(), 0);
        }
    };
    let outcome = within(&clock, async {
        match work {
            GuestFunction::Describe => hook
                .describe(&mut store)
                .await
                .map(|t| Ok(GuestResult::Description(t))),
            GuestFunction::Call(call) => hook
                .call(&mut store, call)
                .await
                .map(|answer| answer.map(GuestResult::Answer)),
        }
    })
    .await;
    drop(guard);
    let log = log.take();
    let result = match outcome {
        None => Err(CallError::Deadline(deadline)),
        Some(Err(error)) => Err(trap_error(&error, &log, deadline, limits.output)),
        Some(Ok(result)) => result.map_err(shorten_message),
    };
    (result, log, store.data().limiter.peak_memory())
}

/// Runs the work until the call's end, which waiting for a fact defers meanwhile; `None` if it is not done then.
async fn within<T>(clock: &CallClock, work: impl Future<Output = T>) -> Option<T> {
    tokio::pin!(work);
    loop {
        let end = clock.end();
        if let Ok(done) = tokio::time::timeout_at(end.into(), &mut work).await {
            return Some(done);
        }
        if clock.end() <= end {
            return None;
        }
    }
}

fn set_store_limits(store: &mut Store<StoreState>, limits: &Limits, clock: CallClock) {
    store.limiter(|state| &mut state.limiter);
    // A list of strings that all point at the same bytes would be copied once per string.
    store.set_hostcall_fuel(limits.output.saturating_mul(TRANSFER_FACTOR));
    store.set_epoch_deadline(1);
    store.epoch_deadline_callback(move |_| {
        let over = Instant::now() >= clock.end();
        Ok(if over {
            UpdateDeadline::Interrupt
        } else {
            UpdateDeadline::Yield(1)
        })
    });
}

fn invocation_facts(
    host: &EngineHost,
    name: &str,
    point: HookPoint,
    invocation: &Invocation,
) -> InvocationFacts {
    InvocationFacts::from([
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
