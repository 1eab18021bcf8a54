//! Tests of the hook `shutdown-audit`, as plain Rust and as a module under wasmtime.
#![allow(missing_docs)]

use hooks_sdk_testing::{Hook, hook_host::Invocation};
use shutdown_audit_hook::ShutdownAudit;

#[hooks_sdk_testing::test(ShutdownAudit)]
fn shutdown_is_logged_with_namespace_name_and_uid(hook: Hook) {
    let hook = hook.with_invocation(Invocation {
        namespace: "default".into(),
        name: "vm".into(),
        uid: "u-1".into(),
        ..Invocation::default()
    });
    let ran = hook.shutdown();
    assert!(
        ran.logged("audit: vm=default/vm uid=u-1 event=ended"),
        "{:?}",
        ran.log
    );
    ran.ok();
}

#[hooks_sdk_testing::test(ShutdownAudit)]
fn missing_namespace_name_and_uid_are_logged_as_empty(hook: Hook) {
    let ran = hook.shutdown();
    assert!(ran.logged("audit: vm=/ uid= event=ended"), "{:?}", ran.log);
    ran.ok();
}
