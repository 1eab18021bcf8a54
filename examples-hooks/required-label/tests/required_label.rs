//! Tests of the hook `required-label`, as plain Rust and as a module under wasmtime.
#![allow(missing_docs)]

use hooks_sdk_testing::Hook;
use required_label_hook::RequiredLabel;

fn vmi(label: &str, value: &str) -> String {
    hooks_sdk::json!({"metadata": {"name": "vm", "namespace": "default", "labels": {label: value}}})
        .to_string()
}

#[hooks_sdk_testing::test(RequiredLabel)]
fn vm_with_the_label_starts(hook: Hook) {
    hook.pre_start(&vmi("team", "storage")).ok();
}

#[hooks_sdk_testing::test(RequiredLabel)]
fn veto_of_a_vm_without_the_label_says_how_to_add_it(hook: Hook) {
    for without in [vmi("other", "x"), vmi("team", "")] {
        assert_eq!(
            hook.pre_start(&without).veto(),
            "default/vm has no label \"team\": say whose it is, in spec.template.metadata.labels"
        );
    }
}

#[hooks_sdk_testing::test(RequiredLabel)]
fn label_name_is_configurable(hook: Hook) {
    let hook = hook.with_config("label", "cost-centre");
    hook.pre_start(&vmi("cost-centre", "42")).ok();
    assert!(
        hook.pre_start(&vmi("team", "storage"))
            .veto()
            .contains("\"cost-centre\"")
    );
}

#[hooks_sdk_testing::test(RequiredLabel)]
fn unreadable_vmi_is_a_failure_not_a_veto(hook: Hook) {
    let failure = hook.pre_start("{\"metadata\":").failure();
    assert!(
        failure.contains("the VMI cannot be read: expected a value"),
        "{failure}"
    );
}
