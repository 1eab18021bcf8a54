//! Tests of the hook `migration-tuning`, as plain Rust and as a module under wasmtime.
#![allow(missing_docs)]

use hooks_sdk_testing::Hook;
use hooks_sdk_testing::hook_host::MigrationParameters;
use migration_tuning_hook::MigrationTuning;

fn vmi(annotations: &[(&str, &str)]) -> String {
    let annotations: std::collections::BTreeMap<String, &str> = annotations
        .iter()
        .map(|(name, value)| (format!("migration-tuning.example.com/{name}"), *value))
        .collect();
    hooks_sdk::json!({"metadata": {"name": "vm", "namespace": "default", "annotations": annotations}})
        .to_string()
}

/// A cluster's own.
fn parameters() -> MigrationParameters {
    MigrationParameters {
        parallel_connections: 8,
        ..MigrationParameters::default()
    }
}

#[hooks_sdk_testing::test(MigrationTuning)]
fn annotations_become_parameters(hook: Hook) {
    let vmi = vmi(&[
        ("bandwidth-mib", "64"),
        ("connections", "2"),
        ("auto-converge", "true"),
    ]);
    let after = hook.pre_migration_source(&vmi, &parameters()).ok();
    let expected = MigrationParameters {
        bandwidth: 64 << 20,
        parallel_connections: 2,
        allow_auto_converge: true,
        ..parameters()
    };
    assert_eq!(after, expected);
}

#[hooks_sdk_testing::test(MigrationTuning)]
fn without_annotations_parameters_are_unchanged(hook: Hook) {
    let after = hook.pre_migration_source(&vmi(&[]), &parameters()).ok();
    assert_eq!(after, parameters());
}

#[hooks_sdk_testing::test(MigrationTuning)]
fn hold_vetoes_the_migration_with_the_owners_reason(hook: Hook) {
    let vmi_on_hold = vmi(&[("hold", "closing the books until Friday")]);
    assert_eq!(
        hook.pre_migration_source(&vmi_on_hold, &parameters())
            .veto(),
        "default/vm stays on its node: closing the books until Friday (annotation migration-tuning.example.com/hold)"
    );
}

#[hooks_sdk_testing::test(MigrationTuning)]
fn error_contains_the_name_of_an_invalid_annotation(hook: Hook) {
    for (name, value) in [
        ("connections", "256"),
        ("bandwidth-mib", "1048577"),
        ("auto-converge", "yes"),
    ] {
        let refused = hook.pre_migration_source(&vmi(&[(name, value)]), &parameters());
        let veto = refused.veto();
        assert!(
            veto.starts_with(&format!("migration-tuning.example.com/{name} is ")),
            "{veto}"
        );
    }
    let words = vmi(&[("connections", "two")]);
    let failure = hook.pre_migration_source(&words, &parameters()).failure();
    assert!(
        failure.contains("migration-tuning.example.com/connections"),
        "{failure}"
    );
}
