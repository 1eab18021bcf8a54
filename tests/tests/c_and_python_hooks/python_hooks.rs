//! The example and the test hooks in Python.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use hook_host::MigrationParameters;
use hooks_sdk_testing::readme;
use tests::binaries::workspace;

use crate::{assert_changes_nothing, board_hook, board_vmi, build_once, example, load};

/// The hook is called with every tenth VMI of the corpus, since Python is slow.
const CORPUS_STEP: usize = 10;

fn interfaces_module() -> PathBuf {
    static MODULE: OnceLock<PathBuf> = OnceLock::new();
    build_once(
        &MODULE,
        "examples-hooks/python-interface-tuning",
        "interfaces",
    )
}

#[test]
fn a_veto_that_a_python_hook_returns_is_a_failure() {
    let hook = board_hook();
    let failure = hook.pre_start(&board_vmi("a returned veto")).failure();
    let expected = "pre_start returned a Veto: raise it (hook.py:";
    assert!(failure.contains(expected), "{failure}");
    hook.pre_start(&board_vmi("ACME")).ok();
}

/// Runs the tests of the SDK in Python and of the example hook natively.
#[test]
fn python_tests_run_natively() {
    for directory in [
        "tests/hooks/python-sdk",
        "examples-hooks/python-interface-tuning",
    ] {
        let mut make = Command::new("make");
        let make = make.args(["-f", "sdk/hook.mk", "native"]);
        let make = make.env("PYTHONDONTWRITEBYTECODE", "1");
        let output = make.current_dir(workspace().join(directory)).output();
        let output = output.unwrap();
        let printed = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{directory}: {printed}");
        assert!(printed.contains("OK"), "{directory}: {printed}");
    }
}

#[test]
fn test_cases_in_the_python_hooks_readme_pass() {
    let cases = readme(
        example("python-interface-tuning").join("README.md"),
        interfaces_module(),
    );
    assert_eq!(cases.unwrap_or_else(|error| panic!("{error}")), 2);
}

/// One test for other VMs, errors, vetoes and migration parameters, since compiling the module takes some seconds.
#[test]
fn the_python_hook_does_not_change_other_vms_and_reports_where_it_failed() {
    let hook = load(&interfaces_module());
    assert_changes_nothing(&hook, CORPUS_STEP);
    let vmi = |spec: &str, tuning: &str| {
        let spec: serde_json::Value = serde_json::from_str(spec).unwrap();
        let annotations = serde_json::json!({"interfaces.vm.example.com/tuning": tuning});
        serde_json::json!({"metadata": {"annotations": annotations}, "spec": spec}).to_string()
    };
    let vmi_without_domain = vmi("{}", r#"{"a": {"queues": 2}}"#);
    let failed = hook.pre_start(&vmi_without_domain).failure();
    assert!(failed.contains("KeyError: 'domain' (hook.py:"), "{failed}");
    let vmi_with_invalid_annotation = vmi(r#"{"domain": {"devices": {}}}"#, "queues=4");
    let refused = hook.pre_start(&vmi_with_invalid_annotation).veto();
    assert!(refused.contains("is not JSON"), "{refused}");
    let parameters = MigrationParameters::default();
    let tuned = vmi(r#"{"domain": {"devices": {}}}"#, r#"{"a": {"queues": 4}}"#);
    let tuned = hook.pre_migration_source(&tuned, &parameters).ok();
    assert_eq!(tuned.parallel_connections, 4);
    assert_eq!(parameters.differences(&tuned).len(), 1);
    let refused = hook
        .pre_migration_source(&vmi_with_invalid_annotation, &parameters)
        .veto();
    assert!(refused.contains("is not JSON"), "{refused}");
}
