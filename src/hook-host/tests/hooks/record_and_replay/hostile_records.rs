//! Records that are invalid, or were edited to get more resources.

use super::*;

fn valid_layer() -> serde_json::Value {
    json!({"origin": "", "patterns": ["/domain/title"]})
}

/// A record can come from an untrusted source, so it must not get more resources than a hook.yaml could grant.
#[tokio::test]
async fn values_beyond_the_limits_of_hook_yaml_are_refused_in_records() {
    let RecordingChain { dirs, chain } = recording_chain("{}", false).await;
    chain.pre_start(&invocation(), "{}").await.unwrap();
    let text = std::fs::read_to_string(&record_files(&dirs)[0]).unwrap();
    // All replays share the compiled artifact.
    let artifacts = tempfile::tempdir().unwrap();
    let options = || LoadOptions {
        artifacts_dir: Some(artifacts.path().join("artifacts")),
        ..LoadOptions::default()
    };
    let valid: serde_json::Value = serde_json::from_str(&text).unwrap();
    let edited_record = |edit: &dyn Fn(&mut serde_json::Value)| {
        let mut value = valid.clone();
        edit(&mut value);
        Record::parse(&value.to_string())
    };
    for limit in ["deadlineMs", "memory", "tableElements", "output", "log"] {
        assert!(valid["limits"][limit].is_u64(), "{limit}");
        let record = edited_record(&|value| value["limits"][limit] = u64::MAX.into()).unwrap();
        let refused = replay(
            &record,
            crate::fixture::misbehaving_hook(),
            false,
            options(),
        )
        .await;
        let error = refused.unwrap_err().to_string();
        assert!(error.contains("is the most"), "{limit}: {error}");
    }
    for (what, grant) in [
        ("layers", json!(vec![valid_layer(); 10_000])),
        (
            "paths",
            json!([{"origin": "", "patterns": vec!["/domain/title"; 10_000]}]),
        ),
    ] {
        let record = edited_record(&|value| value["grant"] = grant.clone()).unwrap();
        let refused = replay(
            &record,
            crate::fixture::misbehaving_hook(),
            false,
            options(),
        )
        .await;
        let error = refused.unwrap_err().to_string();
        assert!(
            error.contains(what) && error.contains("is the most"),
            "{error}"
        );
    }
    // The comparison of many documents takes less than quadratic time.
    let documents: Vec<_> = (0..200_000).map(|n| json!([n.to_string(), ""])).collect();
    let set_documents = |value: &mut serde_json::Value| {
        value["output"] = json!({"domainXml": null, "documents": documents});
    };
    let many = edited_record(&set_documents).unwrap();
    let replayed = replay(&many, crate::fixture::misbehaving_hook(), false, options()).await;
    assert_eq!(replayed.unwrap().difference.documents.len(), 200_000);
    let nested = "[".repeat(100_000);
    assert!(Record::parse(&nested).is_err());
    let escape = edited_record(&|value| value["hookPoint"] = "\u{1b}[2J\u{202e}".into()).unwrap();
    let refused = replay(
        &escape,
        crate::fixture::misbehaving_hook(),
        false,
        options(),
    )
    .await;
    let error = refused.unwrap_err().to_string();
    assert!(!error.contains(['\u{1b}', '\u{202e}']), "{error}");

    let pipe = dirs.hooks().join("pipe");
    let mkfifo = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(mkfifo.unwrap().success());
    let error = Record::read(&pipe).unwrap_err().to_string();
    assert!(error.contains("not a regular file"), "{error}");
    let huge = dirs.hooks().join("huge");
    std::fs::File::create(&huge)
        .unwrap()
        .set_len(1 << 40)
        .unwrap();
    let error = Record::read(&huge).unwrap_err().to_string();
    assert!(error.contains("more than"), "{error}");
}

#[tokio::test]
async fn invalid_records_are_refused() {
    for text in ["", "[]", "{}", r#"{"version":2}"#] {
        assert!(
            matches!(Record::parse(text), Err(RecordReadError::NotARecord(_))),
            "{text}"
        );
    }
    let RecordingChain { dirs, chain } = recording_chain("{}", false).await;
    chain.pre_start(&invocation(), "{}").await.unwrap();
    let mut record = last_record(&dirs);
    record.hook_point = "Never".into();
    assert!(
        replay(
            &record,
            crate::fixture::misbehaving_hook(),
            false,
            LoadOptions::default()
        )
        .await
        .is_err()
    );
}
