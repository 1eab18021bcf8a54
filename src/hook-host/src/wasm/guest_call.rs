//! Calls a guest function on a fresh store, within deadline and limits.

use std::time::{Duration, Instant};

use wasmtime::{Store, UpdateDeadline};

use super::call_types::{Answer, Call, CallContext, CallError, CallReport};
use super::engine_host::EngineHost;
use super::file_io_threads;
use super::store_state::{InvocationFacts, StoreState};
use super::trap_explanation::{TRANSFER_FACTOR, answer_not_utf8, shorten_message, trap_error};
use super::wit_versions::HookBinding;
use crate::pod_facts::{CallDeadline, PodFactReader};
use crate::{HookPoint, Invocation, Limits, LogLine};

/// The guest function to call.
enum GuestFunction<'a> {
    Describe,
    Call(&'a Call<'a>),
}

/// The value that the guest function returned. A description is not parsed yet.
enum GuestResult {
    Description(String),
    Answer(Answer),
}

/// Calls a module at one hook point. A call with directories runs on the threads for file operations.
pub(super) async fn call(
    host: &EngineHost,
    hook: &HookBinding,
    name: &str,
    context: &CallContext,
    call: &Call<'_>,
) -> CallReport {
    let work = call_on_current_runtime(host, hook, name, context, call);
    if context.dirs.is_empty() {
        return work.await;
    }
    let report = file_io_threads::run(work).await;
    report.unwrap_or_else(|reason| not_called(CallError::Host(reason), Duration::ZERO))
}

/// The report of a call that did not begin.
fn not_called(error: CallError, duration: Duration) -> CallReport {
    CallReport {
        result: Err(error),
        log: Vec::new(),
        duration,
        peak_memory: 0,
        facts: Vec::new(),
        waited: Duration::ZERO,
    }
}

/// Calls a module. Blocking operations use the threads of the current runtime.
async fn call_on_current_runtime(
    host: &EngineHost,
    hook: &HookBinding,
    name: &str,
    context: &CallContext,
    call: &Call<'_>,
) -> CallReport {
    let limits = context.limits.as_ref().unwrap_or(&host.limits);
    let started = Instant::now();
    let not_called = |error| not_called(error, started.elapsed());
    if let Err(error) = call.check_size(limits.output) {
        return not_called(error);
    }
    let invocation_facts = invocation_facts(host, name, call.point(), &context.invocation);
    let deadline = context
        .time_left
        .map_or(limits.call_deadline, |left| left.min(limits.call_deadline));
    let chain_end = context.time_left.map(|left| started + left);
    let clock = CallDeadline::new(Instant::now() + deadline, chain_end);
    let pod_facts = PodFactReader::new(context.pod.clone(), clock.clone());
    let opened = StoreState::open(invocation_facts, context, limits, pod_facts.clone());
    let state = match run_until_end(&clock, opened).await {
        Some(Ok(state)) => state,
        Some(Err(reason)) => return not_called(CallError::Host(reason)),
        None => return not_called(CallError::Deadline(deadline)),
    };
    let work = GuestFunction::Call(call);
    let (result, log, peak_memory) = run(host, limits, hook, state, (deadline, clock), &work).await;
    let result = result.and_then(|value| match value {
        GuestResult::Answer(answer) => answer.check_size(limits.output).map(|()| answer),
        GuestResult::Description(_) => Ok(Answer::Done),
    });
    CallReport {
        result,
        log,
        duration: started.elapsed(),
        peak_memory,
        facts: pod_facts.take_reads(),
        waited: pod_facts.waited(),
    }
}

/// Calls `describe` of a module.
pub(super) async fn describe(host: &EngineHost, hook: &HookBinding) -> Result<String, CallError> {
    let deadline = host.limits.call_deadline;
    let clock = CallDeadline::new(Instant::now() + deadline, None);
    let (invocation_facts, context) = (InvocationFacts::new(), CallContext::default());
    let pod_facts = PodFactReader::new(context.pod.clone(), clock.clone());
    let state = StoreState::new(invocation_facts, &context, &host.limits, pod_facts)
        .map_err(CallError::Host)?;
    let work = GuestFunction::Describe;
    let (result, _, _) = run(host, &host.limits, hook, state, (deadline, clock), &work).await;
    result.map(|value| match value {
        GuestResult::Description(text) => text,
        GuestResult::Answer(_) => String::new(),
    })
}

/// Calls a guest function. Returns the result, the log and the peak memory. The epoch interrupts a guest that loops;
/// the timer ends a guest that waits for the host.
async fn run(
    host: &EngineHost,
    limits: &Limits,
    hook: &HookBinding,
    state: StoreState,
    (deadline, clock): (Duration, CallDeadline),
    work: &GuestFunction<'_>,
) -> (Result<GuestResult, CallError>, Vec<LogLine>, usize) {
    let log = state.log.clone();
    let mut store = Store::new(&host.engine, state);
    set_store_limits(&mut store, limits, clock.clone());
    let guard = match host.epoch_thread.begin_call() {
        Ok(guard) => guard,
        Err(error) => {
            let message = format!("no thread to watch its deadline: {error}");
            return (Err(CallError::Trap(message)), Vec::new(), 0);
        }
    };
    let outcome = run_until_end(&clock, async {
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
    let limiter = &store.data().limiter;
    let refused = limiter.refused_growth();
    let result = match outcome {
        None => Err(CallError::Deadline(deadline)),
        Some(Err(error)) => {
            let is_xml = matches!(work, GuestFunction::Call(call) if call.gives_xml());
            let not_utf8 = answer_not_utf8(&error, is_xml);
            Err(not_utf8
                .unwrap_or_else(|| trap_error(&error, &log, deadline, limits.output, refused)))
        }
        Some(Ok(result)) => result.map_err(|error| shorten_message(error, refused)),
    };
    (result, log, limiter.peak_memory())
}

/// Runs work until the end of the call, which is later if the call waits for facts about the pod; `None` if the work is
/// not complete then.
async fn run_until_end<T>(clock: &CallDeadline, work: impl Future<Output = T>) -> Option<T> {
    tokio::pin!(work);
    loop {
        let end = clock.end();
        if let Ok(result) = tokio::time::timeout_at(end.into(), &mut work).await {
            return Some(result);
        }
        if clock.end() <= end {
            return None;
        }
    }
}

fn set_store_limits(store: &mut Store<StoreState>, limits: &Limits, clock: CallDeadline) {
    store.limiter(|state| &mut state.limiter);
    // Limits what one value costs: a list of strings with the same address would be copied once per string.
    store.set_hostcall_fuel(limits.output.saturating_mul(TRANSFER_FACTOR));
    store.set_epoch_deadline(1);
    store.epoch_deadline_callback(move |_| {
        let is_over = Instant::now() >= clock.end();
        Ok(if is_over {
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
