//! A single module that is loaded and called without a chain: limits and errors.
mod load_errors;

use std::time::Duration;

use hook_host::wasm::{
    Answer, Call, CallContext, CallError, CallReport, LoadError, LoadOptions, Module,
};
use hook_host::{HookPoint, Limits, LogLevel};
use tokio::sync::OnceCell;

/// The deadline of endless calls. Ordinary calls do not exceed it on a busy machine either.
const CALL_DEADLINE: Duration = Duration::from_millis(1500);
/// The deadline of a call that takes long but ends, also on a busy machine.
const LONG_CALL_DEADLINE: Duration = Duration::from_secs(60);

async fn misbehaving_hook() -> &'static Module {
    static MISBEHAVING_HOOK: OnceCell<Module> = OnceCell::const_new();
    MISBEHAVING_HOOK
        .get_or_init(|| async {
            Module::load(crate::fixture::misbehaving_hook(), options())
                .await
                .unwrap()
        })
        .await
}

fn options() -> LoadOptions {
    let limits = Limits {
        call_deadline: CALL_DEADLINE,
        memory: 32 << 20,
        log: 2000,
        ..Limits::default()
    };
    LoadOptions {
        limits,
        ..LoadOptions::default()
    }
}

/// Calls the misbehaving hook at OnDefineDomain.
async fn define(vmi: &str) -> CallReport {
    let context = CallContext {
        invocation: crate::fixture::invocation(),
        ..CallContext::default()
    };
    misbehaving_hook()
        .await
        .call(
            &context,
            &Call::OnDefineDomain {
                vmi,
                domain_xml: crate::fixture::XML,
            },
        )
        .await
}

/// The message of a trap at OnDefineDomain.
async fn trap_message(vmi: &str) -> String {
    match define(vmi).await.result {
        Err(CallError::Trap(text) | CallError::Panic(text)) => text,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_module_is_described_and_edits_the_domain() {
    let hook = misbehaving_hook().await;
    assert_eq!(
        (
            hook.description().name.as_str(),
            hook.description().version.as_str()
        ),
        ("odd", "1.2.3")
    );
    assert_eq!(hook.description().priority(HookPoint::PreStart), Some(5));
    assert_eq!(
        hook.description().priority(HookPoint::OnDefineDomain),
        Some(-1)
    );
    assert_eq!(hook.digest().len(), 64);
    let called = define("{}").await;
    let expected = crate::fixture::XML.replace("</domain>", "<title>odd</title></domain>");
    assert_eq!(called.result, Ok(Answer::DomainXml(expected)));
    assert!(called.peak_memory > 1 << 16 && called.peak_memory < 8 << 20);
}

#[tokio::test]
async fn a_module_reads_the_invocation() {
    let Ok(Answer::DomainXml(xml)) = define("facts").await.result else {
        panic!()
    };
    let facts = "boot OnDefineDomain misbehaving_hook ns vm u-1 ns_vm hook-host/0.1.0 -";
    assert!(
        xml.contains(&format!("<description>{facts}</description>")),
        "{xml}"
    );
}

#[tokio::test]
async fn veto_and_failure_are_distinguished() {
    assert_eq!(
        define("veto").await.result,
        Err(CallError::Veto("not on a Friday".into()))
    );
    let failed = Err(CallError::Failed("the annotation is not a number".into()));
    assert_eq!(define("fail").await.result, failed);
}

#[tokio::test]
async fn traps_are_explained() {
    let panicked = trap_message("panic").await;
    assert!(
        panicked.contains("a wheel came off") && panicked.contains("misbehaviours.rs"),
        "{panicked}"
    );
    let recursed = trap_message("recurse").await;
    assert!(
        recursed.contains("stack") || recursed.contains("recurs"),
        "{recursed}"
    );
    let out_of_memory = trap_message("memory").await;
    assert!(
        out_of_memory.contains("may have 33554432"),
        "{out_of_memory}"
    );
    let exited = trap_message("exit").await;
    assert!(exited.contains("exit"), "{exited}");
}

#[tokio::test]
async fn a_loop_is_interrupted_on_a_single_worker_thread() {
    let called = define("loop").await;
    assert_eq!(called.result, Err(CallError::Deadline(CALL_DEADLINE)));
}

#[tokio::test]
async fn waiting_in_a_host_function_counts_against_the_deadline() {
    let called = define("sleep").await;
    assert_eq!(called.result, Err(CallError::Deadline(CALL_DEADLINE)));
}

#[tokio::test]
async fn the_callers_time_left_shortens_the_deadline() {
    let context = CallContext {
        time_left: Some(Duration::from_millis(50)),
        ..CallContext::default()
    };
    let called = misbehaving_hook()
        .await
        .call(&context, &Call::PreStart { vmi: "loop" })
        .await;
    assert_eq!(
        called.result,
        Err(CallError::Deadline(Duration::from_millis(50)))
    );
}

#[tokio::test]
async fn the_log_is_kept_up_to_its_limit() {
    let messages: Vec<_> = define("log")
        .await
        .log
        .into_iter()
        .map(|line| (line.level, line.message))
        .collect();
    assert_eq!(
        messages,
        [
            (LogLevel::Warn, "through the host".to_owned()),
            (LogLevel::Info, "through standard output".to_owned()),
            (LogLevel::Error, "through standard error".to_owned()),
        ]
    );
    let context = CallContext {
        limits: Some(Limits {
            call_deadline: LONG_CALL_DEADLINE,
            ..options().limits
        }),
        ..CallContext::default()
    };
    let call = Call::PreStart { vmi: "flood" };
    let flood = misbehaving_hook().await.call(&context, &call).await;
    assert!(flood.result.is_ok(), "{:?}", flood.result);
    let bytes: usize = flood.log.iter().map(|line| line.message.len()).sum();
    assert!(bytes < 2100 && flood.log.last().unwrap().message.contains("dropped"));
}

#[tokio::test]
async fn wasi_grants_nothing() {
    let called = define("reach-out").await;
    assert!(called.result.is_ok(), "{:?}", called.result);
}

#[tokio::test]
async fn input_and_output_sizes_are_limited() {
    // The output is refused while it is copied out of the guest, before the host has it in memory.
    let huge = trap_message("huge").await;
    assert!(
        huge.contains("more than 2 times 4194304 bytes at once"),
        "{huge}"
    );
    let vmi = "x".repeat((4 << 20) + 1);
    let refused = define(&vmi).await.result;
    assert!(
        matches!(
            refused,
            Err(CallError::InputTooLarge {
                what: "the VMI",
                ..
            })
        ),
        "{refused:?}"
    );
}

#[tokio::test]
async fn shutdown_runs_without_a_vm() {
    let called = misbehaving_hook()
        .await
        .call(&CallContext::default(), &Call::Shutdown)
        .await;
    assert_eq!(
        called.result,
        Err(CallError::Failed("shutdown is never easy".into()))
    );
}
