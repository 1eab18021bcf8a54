//! Runs a guest function on a fresh store, within its limits.

use std::time::{Duration, Instant};

use wasmtime::{Store, UpdateDeadline};

use super::engine_host::EngineHost;
use super::module_call::{Answer, Call, CallContext, CallError, CallReport};
use super::store_state::{InvocationFacts, StoreState};
use super::trap::{TRANSFER_FACTOR, shorten_message, trap_error};
use super::versions::HookBinding;
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
    let limits = context.limits.as_ref().unwrap_or(&host.limits);
    let started = Instant::now();
    let refused = |error| CallReport {
        result: Err(error),
        log: Vec::new(),
        duration: started.elapsed(),
        peak_memory: 0,
    };
    if let Err(error) = call.check_size(limits.output) {
        return refused(error);
    }
    let facts = invocation_facts(host, name, call.point(), &context.invocation);
    let state = match StoreState::new(facts, context, limits) {
        Ok(state) => state,
        Err(reason) => return refused(CallError::Host(reason)),
    };
    let deadline = context
        .time_left
        .map_or(limits.call_deadline, |left| left.min(limits.call_deadline));
    let (result, log, peak_memory) = run(
        host,
        limits,
        hook,
        state,
        deadline,
        &GuestFunction::Call(call),
    )
    .await;
    let result = result.and_then(|product| match product {
        GuestResult::Answer(answer) => answer.check_size(limits.output).map(|()| answer),
        GuestResult::Description(_) => Ok(Answer::Done),
    });
    CallReport {
        result,
        log,
        duration: started.elapsed(),
        peak_memory,
    }
}

/// Calls the guest's `describe`.
pub(super) async fn describe(
    host: &EngineHost,
    hook: &HookBinding,
) -> (Result<String, CallError>, Vec<LogLine>) {
    let state = match StoreState::new(
        InvocationFacts::new(),
        &CallContext::default(),
        &host.limits,
    ) {
        Ok(state) => state,
        Err(reason) => return (Err(CallError::Host(reason)), Vec::new()),
    };
    let deadline = host.limits.call_deadline;
    let (result, log, _) = run(
        host,
        &host.limits,
        hook,
        state,
        deadline,
        &GuestFunction::Describe,
    )
    .await;
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
    deadline: Duration,
    work: &GuestFunction<'_>,
) -> (Result<GuestResult, CallError>, Vec<LogLine>, usize) {
    let log = state.log.clone();
    let mut store = Store::new(&host.engine, state);
    set_store_limits(&mut store, limits, Instant::now() + deadline);
    let guard = match host.ticker.begin_call() {
        Ok(guard) => guard,
        Err(error) => {
            let message = format!("no thread to watch its deadline: {error}");
            return (Err(CallError::Trap(message)), Vec::new(), 0);
        }
    };
    let outcome = tokio::time::timeout(deadline, async {
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
        Err(_) => Err(CallError::Deadline(deadline)),
        Ok(Err(error)) => Err(trap_error(&error, &log, deadline, limits.output)),
        Ok(Ok(result)) => result.map_err(shorten_message),
    };
    (result, log, store.data().limiter.peak_memory())
}

fn set_store_limits(store: &mut Store<StoreState>, limits: &Limits, end: Instant) {
    store.limiter(|state| &mut state.limiter);
    // A list of strings that all point at the same bytes would be copied once per string.
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
