//! Recorded runs and their replay.
#![allow(clippy::unwrap_used)]

mod fixture;

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use fixture::sidecar_server::{Behaviour, Sidecar};
use fixture::{HookDirs, XML, invocation};
use hook_host::record::{ReadError, Record, RecordConfig};
use hook_host::replay::{ReplayError, ReplayResult, replay};
use hook_host::wasm::LoadOptions;
use hook_host::{Chain, CloudInitDocuments, CollectConfig, collect};
use serde_json::json;

struct RecordedChain {
    dirs: HookDirs,
    chain: Chain,
}

async fn recorded(yaml: &str, secrets: bool) -> RecordedChain {
    let dirs = HookDirs::new();
    dirs.put("odd", "hook.yaml", yaml.as_bytes());
    dirs.put_hook("odd");
    let chain = recording(&dirs, secrets).await;
    RecordedChain { dirs, chain }
}

async fn recording(dirs: &HookDirs, secrets: bool) -> Chain {
    let dir = dirs.hooks().join("../records");
    let config = CollectConfig {
        record: Some(RecordConfig { dir, secrets }),
        ..dirs.config(1)
    };
    collect(config).await.unwrap()
}

fn files(dirs: &HookDirs) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dirs.hooks().join("../records")).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn last(dirs: &HookDirs) -> Record {
    Record::read(files(dirs).last().unwrap()).unwrap()
}

async fn replay_record(record: &Record) -> ReplayResult {
    replay(
        record,
        fixture::misbehaving_hook(),
        false,
        LoadOptions::default(),
    )
    .await
    .unwrap()
}

#[tokio::test]
async fn a_replay_sees_the_recorded_random_numbers_and_time() {
    let RecordedChain { dirs, chain } = recorded("config: {manufacturer: ACME}\n", false).await;
    for word in ["random", "config", "facts", "title", "log", "keep"] {
        chain
            .on_define_domain(&invocation(), word, XML.into())
            .await
            .unwrap();
        let record = last(&dirs);
        assert_eq!(
            (record.outcome.as_str(), record.input.vmi.as_str()),
            ("ok", word)
        );
        let replayed = replay_record(&record).await;
        assert!(
            replayed.difference.is_none() || word == "facts",
            "{word}: {:?}",
            replayed.difference
        );
        assert_eq!(replayed.run.changes.len(), record.changes.len());
    }
    let file = files(&dirs).pop().unwrap();
    assert_eq!(std::fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
    assert!(file.to_string_lossy().ends_with("-OnDefineDomain-odd.json"));
}

#[tokio::test]
async fn recorded_failures_are_reproduced() {
    let yaml = "allow: {paths: [/domain/description]}\ndeadline: 150ms\n";
    let RecordedChain { dirs, chain } = recorded(yaml, false).await;
    for (word, outcome) in [
        ("veto", "veto"),
        ("panic", "trap"),
        ("loop", "deadline"),
        ("title", "denied"),
        ("malformed", "bad-output"),
    ] {
        assert!(
            chain
                .on_define_domain(&invocation(), word, XML.into())
                .await
                .is_err()
        );
        let record = last(&dirs);
        assert_eq!(record.outcome, outcome);
        let replayed = replay_record(&record).await;
        assert!(
            replayed.difference.is_none(),
            "{word}: {:?}",
            replayed.difference
        );
    }
    chain.shutdown(&invocation()).await;
    assert_eq!(last(&dirs).hook_point, "Shutdown");
    assert!(replay_record(&last(&dirs)).await.difference.is_none());
}

#[tokio::test]
async fn another_modules_differences_are_reported() {
    let RecordedChain { dirs, chain } = recorded("{}", false).await;
    chain
        .on_define_domain(&invocation(), "title", XML.into())
        .await
        .unwrap();
    let record = last(&dirs);
    let new = dirs.at("../new", "new.wasm");
    std::fs::write(
        &new,
        fixture::misbehaving_hook_with("<title>odd</title>", "<title>new</title>"),
    )
    .unwrap();
    let refused = replay(&record, &new, false, LoadOptions::default())
        .await
        .unwrap_err();
    assert!(
        matches!(refused, ReplayError::OtherModule { .. }),
        "{refused}"
    );
    let replayed = replay(&record, &new, true, LoadOptions::default())
        .await
        .unwrap();
    let domain = &replayed.difference.domain;
    assert_eq!(
        (domain.len(), domain[0].path.as_str()),
        (1, "/domain/title")
    );
    assert_eq!(domain[0].after.as_deref(), Some("new"));
    assert!(!replayed.difference.is_none_in_effect());
}

#[tokio::test]
async fn a_sidecars_run_is_replayed_with_a_module() {
    let dirs = HookDirs::new();
    let behaviour = Behaviour {
        hook_points: vec![("OnDefineDomain", 0)],
        define: |xml| Ok(xml.replace("</domain>", "  <title>odd</title>\n</domain>")),
        ..Behaviour::default()
    };
    let _sidecar = Sidecar::serve(&dirs.at("s", "s.sock"), behaviour);
    let chain = recording(&dirs, false).await;
    chain
        .on_define_domain(&invocation(), "title", XML.into())
        .await
        .unwrap();
    let record = last(&dirs);
    let refused = replay(
        &record,
        fixture::misbehaving_hook(),
        false,
        LoadOptions::default(),
    )
    .await
    .unwrap_err();
    assert!(matches!(refused, ReplayError::Sidecar), "{refused}");
    let replayed = replay(
        &record,
        fixture::misbehaving_hook(),
        true,
        LoadOptions::default(),
    )
    .await
    .unwrap();
    let difference = replayed.difference;
    assert!(
        difference.is_none_in_effect() && difference.bytes,
        "{difference:?}"
    );
}

const VMI: &str = r#"{"metadata":{"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"hunter2"}},
    "spec":{"volumes":[{"name":"d","cloudInitNoCloud":{"userData":"hunter2","networkDataBase64":"hunter2"}}]}}"#;

#[tokio::test]
async fn secrets_are_recorded_only_on_request() {
    let documents = || CloudInitDocuments {
        data_source: "noCloud".into(),
        cloud_init_data_json:
            r#"{"DataSource":"noCloud","NoCloudMetaData":{"instance-id":"i"},"UserData":"hunter2"}"#
                .into(),
    };
    for secrets in [false, true] {
        let RecordedChain { dirs, chain } = recorded("{}", secrets).await;
        chain.pre_start(&invocation(), VMI).await.unwrap();
        chain
            .pre_cloud_init_iso(&invocation(), VMI, documents())
            .await
            .unwrap();
        for file in files(&dirs) {
            let text = std::fs::read_to_string(file).unwrap();
            assert_eq!(text.contains("hunter2"), secrets, "{text}");
        }
        let record = last(&dirs);
        let replayed = replay(
            &record,
            fixture::misbehaving_hook(),
            false,
            LoadOptions::default(),
        )
        .await;
        match replayed {
            Ok(replayed) => assert!(secrets && replayed.difference.is_none()),
            Err(error) => assert!(
                !secrets && error.to_string().contains("user-data"),
                "{error}"
            ),
        }
    }
}

fn genuine_layer() -> serde_json::Value {
    json!({"origin": "", "patterns": ["/domain/title"]})
}

/// A record of unknown origin must not get more resources than a hook.yaml could grant.
#[tokio::test]
async fn values_beyond_the_limits_of_hook_yaml_are_refused_in_records() {
    let RecordedChain { dirs, chain } = recorded("{}", false).await;
    chain.pre_start(&invocation(), "{}").await.unwrap();
    let text = std::fs::read_to_string(&files(&dirs)[0]).unwrap();
    // The module is compiled once.
    let artifacts = tempfile::tempdir().unwrap();
    let options = || LoadOptions {
        artifacts_dir: Some(artifacts.path().join("artifacts")),
        ..LoadOptions::default()
    };
    let genuine: serde_json::Value = serde_json::from_str(&text).unwrap();
    let record = |edit: &dyn Fn(&mut serde_json::Value)| {
        let mut value = genuine.clone();
        edit(&mut value);
        Record::parse(&value.to_string())
    };
    for limit in ["deadlineMs", "memory", "tableElements", "output", "log"] {
        assert!(genuine["limits"][limit].is_u64(), "{limit}");
        let record = record(&|value| value["limits"][limit] = u64::MAX.into()).unwrap();
        let refused = replay(&record, fixture::misbehaving_hook(), false, options()).await;
        let error = refused.unwrap_err().to_string();
        assert!(error.contains("is the most"), "{limit}: {error}");
    }
    for (what, grant) in [
        ("layers", json!(vec![genuine_layer(); 10_000])),
        (
            "paths",
            json!([{"origin": "", "patterns": vec!["/domain/title"; 10_000]}]),
        ),
    ] {
        let record = record(&|value| value["grant"] = grant.clone()).unwrap();
        let refused = replay(&record, fixture::misbehaving_hook(), false, options()).await;
        let error = refused.unwrap_err().to_string();
        assert!(
            error.contains(what) && error.contains("is the most"),
            "{error}"
        );
    }
    // Compared in time, although nobody would record as many documents.
    let documents: Vec<_> = (0..200_000).map(|n| json!([n.to_string(), ""])).collect();
    let record_of = |value: &mut serde_json::Value| {
        value["output"] = json!({"domainXml": null, "documents": documents});
    };
    let many = record(&record_of).unwrap();
    let replayed = replay(&many, fixture::misbehaving_hook(), false, options()).await;
    assert_eq!(replayed.unwrap().difference.documents.len(), 200_000);
    let nested = "[".repeat(100_000);
    assert!(Record::parse(&nested).is_err());
    let escape = record(&|value| value["hookPoint"] = "\u{1b}[2J\u{202e}".into()).unwrap();
    let refused = replay(&escape, fixture::misbehaving_hook(), false, options()).await;
    let error = refused.unwrap_err().to_string();
    assert!(!error.contains(['\u{1b}', '\u{202e}']), "{error}");

    let pipe = dirs.hooks().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
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
            matches!(Record::parse(text), Err(ReadError::NoRecord(_))),
            "{text}"
        );
    }
    let RecordedChain { dirs, chain } = recorded("{}", false).await;
    chain.pre_start(&invocation(), "{}").await.unwrap();
    let mut record = last(&dirs);
    record.hook_point = "Never".into();
    assert!(
        replay(
            &record,
            fixture::misbehaving_hook(),
            false,
            LoadOptions::default()
        )
        .await
        .is_err()
    );
}
