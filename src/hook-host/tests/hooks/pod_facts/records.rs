//! Facts in records, and their replay.

use super::*;

#[tokio::test]
async fn facts_are_recorded_only_if_the_policy_allows_it() {
    let setup = PodSetup::new(ASK);
    setup.annotate("a.example/b=\"hush\"");
    let define = async |setup: &PodSetup, policy: &str| {
        let chain = setup.chain(policy).await;
        let invocation = invocation();
        let defining = chain.on_define_domain(&invocation, "{}", XML.to_owned());
        defining.await.unwrap();
        let record = setup.record();
        std::fs::remove_dir_all(setup.at("records")).unwrap();
        record
    };
    let module = setup.hooks.at("h", "m.wasm");
    let record = define(&setup, GRANTING_POLICY).await;
    assert_eq!(
        record.withheld,
        ["input: the pod's annotations/a.example/b"]
    );
    assert!(!serde_json::to_string(&record).unwrap().contains("hush"));
    let refused = replay(&record, &module, false, LoadOptions::default()).await;
    assert!(
        matches!(refused, Err(ReplayError::Withheld(_))),
        "{refused:?}"
    );
    let recording_policy =
        "allow: {pod: ['annotations/*'], podRecords: ['annotations/a.example/*']}\n";
    let record = define(&setup, recording_policy).await;
    assert_eq!(record.input.pod[0].value.as_deref(), Some("hush"));
    assert_eq!(record.withheld, [""; 0]);
    // A replay needs no pod.
    std::fs::remove_dir_all(setup.at("pod")).unwrap();
    let replayed = replay(&record, &module, false, LoadOptions::default()).await;
    let replayed = replayed.unwrap();
    assert!(replayed.difference.is_none(), "{:?}", replayed.difference);
}

#[tokio::test]
async fn an_error_is_recorded_and_replayed() {
    let setup = PodSetup::new(ASK_AND_FAIL);
    setup.annotate("a.example/b=\"x\"");
    let before = setup.answer("{digests: Any}\n").await.to_string();
    let record = setup.record();
    assert!(matches!(
        record.input.pod[0].error,
        Some(FactError::Denied(_))
    ));
    let module = setup.hooks.at("h", "m.wasm");
    let replayed = replay(&record, &module, false, LoadOptions::default()).await;
    let replayed = replayed.unwrap();
    assert!(
        replayed.difference.is_none(),
        "{:?} {before}",
        replayed.difference
    );
}
