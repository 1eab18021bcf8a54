//! Failures, also ignored ones, are part of the result of a case.

use super::*;

fn failed_run(hook: &str, failure_policy: &str) -> RunReport {
    RunReport {
        hook: hook.to_owned(),
        hook_point: "Shutdown".to_owned(),
        final_rule: None,
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

fn result_of(runs: Vec<RunReport>) -> ActualResult {
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
    ActualResult::from_hook_results(&input, results)
}

#[test]
fn a_failure_is_an_error_even_after_an_ignored_failure() {
    let error = result_of(vec![failed_run("a", "Ignore"), failed_run("b", "Fail")]);
    assert!(
        matches!(&error, ActualResult::Error(text) if text == "b broke"),
        "{error:?}"
    );
}

#[test]
fn discarded_failures_are_part_of_the_result() {
    let result = result_of(vec![failed_run("a", "Ignore"), failed_run("b", "DryRun")]);
    let ActualResult::Domain {
        discarded_failures, ..
    } = result
    else {
        panic!("{result:?}")
    };
    assert_eq!(
        discarded_failures,
        [
            "a at Shutdown (failurePolicy: Ignore): a broke",
            "b at Shutdown (failurePolicy: DryRun): b broke"
        ]
    );
}
