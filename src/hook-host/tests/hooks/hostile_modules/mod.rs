//! Malicious guests. Each of their calls ends within its limits with an error that names the hook, and afterwards
//! the same chain runs a harmless call. docs/threat-model.md lists these tests.
mod calls;
mod expensive_outputs;
mod outputs;
mod refused_at_collection;
mod resource_exhaustion;

use std::path::Path;
use std::time::Duration;

use crate::fixture::handwritten_guest::HandwrittenGuest;
use crate::fixture::{HookDirs, XML, invocation};
use hook_host::{
    Chain, CloudInitDocuments, CollectConfig, CollectError, HookError, Limits, Outcome,
    PolicySource, StandingHooks, collect,
};

/// The deadline of calls that would never end.
const SHORT_CALL_DEADLINE: Duration = Duration::from_millis(1500);
/// The deadline of all other calls, which a busy machine does not exceed either.
const LONG_CALL_DEADLINE: Duration = Duration::from_secs(60);
/// The timeout after which a test fails because a call or collection does not end.
const TEST_TIMEOUT: Duration = Duration::from_secs(120);

fn limits(call_deadline: Duration) -> Limits {
    Limits {
        call_deadline,
        memory: 32 << 20,
        ..Limits::default()
    }
}

/// Collects one hook, `h`. All tests share the compiled artifacts.
async fn collect_module(module: &[u8], deadline: Duration) -> Result<Chain, CollectError> {
    let dirs = HookDirs::new();
    dirs.put_modified_an_hour_ago("h", "m.wasm", module);
    let config = CollectConfig {
        limits: limits(deadline),
        artifacts_dir: Path::new(env!("CARGO_TARGET_TMPDIR")).join("hostile"),
        ..dirs.config(1)
    };
    tokio::time::timeout(TEST_TIMEOUT, collect(config))
        .await
        .unwrap()
}

async fn chain_of(module: &[u8]) -> Chain {
    collect_module(module, LONG_CALL_DEADLINE).await.unwrap()
}

async fn misbehaving_hook() -> Chain {
    chain_of(&std::fs::read(crate::fixture::misbehaving_hook()).unwrap()).await
}

async fn chain_with_short_deadline(module: &[u8]) -> Chain {
    collect_module(module, SHORT_CALL_DEADLINE).await.unwrap()
}

async fn misbehaving_hook_with_short_deadline() -> Chain {
    misbehaving_hook_with_call_deadline(SHORT_CALL_DEADLINE).await
}

async fn misbehaving_hook_with_call_deadline(deadline: Duration) -> Chain {
    let module = std::fs::read(crate::fixture::misbehaving_hook()).unwrap();
    collect_module(&module, deadline).await.unwrap()
}

/// The error of a call at OnDefineDomain. Also checks that the chain still runs a harmless call.
async fn call_error(chain: &Chain, vmi: &str) -> HookError {
    let invocation = invocation();
    let defining = chain.on_define_domain(&invocation, vmi, XML.into());
    let error = tokio::time::timeout(TEST_TIMEOUT, defining).await.unwrap();
    let error = error.unwrap_err();
    assert_eq!(error.hook(), "h", "{vmi}");
    assert!(chain.pre_start(&invocation, "{}").await.is_ok(), "{vmi}");
    error
}

/// The error of a call of a handwritten guest.
async fn guest_error(guest: HandwrittenGuest) -> HookError {
    call_error(&chain_of(&guest.module()).await, "{}").await
}

fn assert_trap(error: HookError, part: &str) {
    let HookError::Trap { message, .. } = &error else {
        panic!("{error:?}")
    };
    assert!(message.contains(part), "{message}");
}

fn assert_bad_output(error: HookError, part: &str) {
    let HookError::BadOutput { message, .. } = &error else {
        panic!("{error:?}")
    };
    assert!(message.contains(part), "{message}");
}

fn assert_deadline(error: HookError) {
    assert!(
        matches!(
            error,
            HookError::Deadline {
                limit: SHORT_CALL_DEADLINE,
                ..
            }
        ),
        "{error:?}"
    );
}

fn assert_failed(error: HookError, part: &str) {
    let HookError::Failed { message, .. } = &error else {
        panic!("{error:?}")
    };
    assert!(message.contains(part), "{message}");
}

/// Collects the misbehaving hook with this `hook.yaml`.
async fn collect_with_hook_yaml(yaml: &str) -> Result<Chain, CollectError> {
    let dirs = HookDirs::new();
    dirs.put_modified_an_hour_ago("h", "hook.yaml", yaml.as_bytes());
    dirs.put_hook("h");
    let config = CollectConfig {
        limits: limits(LONG_CALL_DEADLINE),
        artifacts_dir: Path::new(env!("CARGO_TARGET_TMPDIR")).join("hostile"),
        ..dirs.config(1)
    };
    collect(config).await
}
