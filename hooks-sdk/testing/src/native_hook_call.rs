//! Runs a hook as plain Rust, with a thread-local replacement of the host.

use std::any::Any;
use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;
use std::time::Instant;

use hook_host::wasm::{Answer, Call, CallContext};
use hook_host::{LogLevel, LogLine};

use crate::call_result::{CallResult, Refusal};
use crate::pod_facts::PodFacts;
use hooks_sdk::__private::dispatch;
use hooks_sdk::host::{Level, native as host};
use hooks_sdk::{Error, Hook};

/// A function that calls the hook.
pub(crate) type Body = fn(&Call<'_>) -> Result<Answer, Error>;

pub(crate) fn body<H: Hook>(call: &Call<'_>) -> Result<Answer, Error> {
    match *call {
        Call::PreStart { vmi } => dispatch::pre_start::<H>(vmi.to_owned()).map(|()| Answer::Done),
        Call::PreCloudInitIso {
            vmi,
            data_source,
            documents,
        } => dispatch::pre_cloud_init_iso::<H>(
            vmi.to_owned(),
            data_source.to_owned(),
            documents.to_vec(),
        )
        .map(Answer::Documents),
        Call::OnDefineDomain { vmi, domain_xml } => {
            dispatch::on_define_domain::<H>(vmi.to_owned(), domain_xml.to_owned())
                .map(Answer::DomainXml)
        }
        Call::OnAttachDevice { vmi, device_xml } => {
            dispatch::on_attach_device::<H>(vmi.to_owned(), device_xml.to_owned())
                .map(Answer::DeviceXml)
        }
        Call::PreMigrationSource { vmi, parameters } => {
            dispatch::pre_migration_source::<H>(vmi.to_owned(), parameters.to_vec())
                .map(Answer::Parameters)
        }
        Call::Shutdown => dispatch::shutdown::<H>().map(|()| Answer::Done),
    }
}

/// Calls the hook once.
pub(crate) fn call(
    body: Body,
    name: &str,
    context: &CallContext,
    pod: &PodFacts,
    call: &Call<'_>,
) -> CallResult<Answer> {
    host::reset();
    set_host_context(name, context, call);
    for (key, value) in &pod.annotations {
        host::set_pod_annotation(key, value);
    }
    for (key, value) in &pod.labels {
        host::set_pod_label(key, value);
    }
    let started = Instant::now();
    let called = catching(|| body(call));
    let duration = started.elapsed();
    let log = host::take_log().into_iter().map(line).collect();
    host::reset();
    let result = match called {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) if error.is_veto() => Err(Refusal::Veto(error.to_string())),
        Ok(Err(error)) => Err(Refusal::Failure(error.to_string())),
        Err(panic) => Err(Refusal::Failure(format!("the hook crashed: {panic}"))),
    };
    CallResult {
        result,
        log,
        duration,
        peak_memory: 0,
    }
}

fn set_host_context(name: &str, context: &CallContext, call: &Call<'_>) {
    let invocation = &context.invocation;
    for (key, value) in [
        ("reason", invocation.reason.name()),
        ("hook-point", call.point().name()),
        ("hook", name),
        ("namespace", &invocation.namespace),
        ("name", &invocation.name),
        ("uid", &invocation.uid),
        ("domain", &invocation.domain),
        ("host", concat!("hooks-sdk/", env!("CARGO_PKG_VERSION"))),
    ] {
        host::set_invocation(key, value);
    }
    for (key, value) in &context.config {
        host::set_config(key, value);
    }
}

fn line((level, message): (Level, String)) -> LogLine {
    let level = match level {
        Level::Debug => LogLevel::Debug,
        Level::Info => LogLevel::Info,
        Level::Warn => LogLevel::Warn,
        // A level that this crate does not know is shown as an error.
        _ => LogLevel::Error,
    };
    LogLine { level, message }
}

thread_local! {
    /// The text and place of a panic during the call.
    static PANIC: Cell<Option<String>> = const { Cell::new(None) };
    static CATCHING: Cell<bool> = const { Cell::new(false) };
}

/// Runs a function. A panic is returned as its text and place, and prints nothing.
fn catching<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            if CATCHING.get() {
                PANIC.set(Some(panic.to_string()));
            } else {
                usual(panic);
            }
        }));
    });
    CATCHING.set(true);
    let done = panic::catch_unwind(AssertUnwindSafe(work));
    CATCHING.set(false);
    done.map_err(|payload: Box<dyn Any + Send>| {
        drop(payload);
        PANIC.take().unwrap_or_default()
    })
}
