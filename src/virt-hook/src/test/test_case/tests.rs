#![allow(clippy::unwrap_used)]

use super::*;

fn failed(hook: &str, failure_policy: &str) -> RunReport {
    RunReport {
        hook: hook.to_owned(),
        hook_point: "Shutdown".to_owned(),
        outcome: "trap".to_owned(),
        reason: Some(format!("{hook} broke")),
        failure_policy: failure_policy.to_owned(),
        changes: Vec::new(),
        log: Vec::new(),
        duration_micros: 1,
        deadline_millis: 1,
        peak_memory: 1,
        memory_limit: 1,
    }
}

fn actual_of(runs: Vec<RunReport>) -> Actual {
    let yaml = "metadata: {name: a, namespace: b}\nspec: {domain: {memory: {guest: 1Gi}}}\n";
    let input = VmiInput::on_any_node(yaml).unwrap();
    let results = HookResults {
        xml: input.xml.clone(),
        devices: Vec::new(),
        migration: None,
        cloud_init: None,
        runs,
        lacks_pod_facts: false,
        error: None,
    };
    actual(&input, results)
}

#[test]
fn a_failure_is_an_error_even_after_one_that_is_ignored() {
    let error = actual_of(vec![failed("a", "Ignore"), failed("b", "Fail")]);
    assert!(
        matches!(&error, Actual::Error(text) if text == "b broke"),
        "{error:?}"
    );
}

#[test]
fn discarded_failures_are_part_of_the_result() {
    let found = actual_of(vec![failed("a", "Ignore"), failed("b", "DryRun")]);
    let Actual::Domain {
        discarded_failures, ..
    } = found
    else {
        panic!("{found:?}")
    };
    assert_eq!(
        discarded_failures,
        [
            "a at Shutdown (failurePolicy: Ignore): a broke",
            "b at Shutdown (failurePolicy: DryRun): b broke"
        ]
    );
}
