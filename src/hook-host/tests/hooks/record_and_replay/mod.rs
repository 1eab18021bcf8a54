//! Records of runs, and their replay.
mod hostile_records;

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use crate::fixture::sidecar_server::{Behaviour, Sidecar};
use crate::fixture::{HookDirs, XML, invocation};
use hook_host::record::{Record, RecordConfig, RecordReadError};
use hook_host::replay::{ReplayError, ReplayResult, replay};
use hook_host::wasm::LoadOptions;
use hook_host::{Chain, CloudInitDocuments, CollectConfig, collect};
use serde_json::json;

/// A chain of the misbehaving hook that records its runs.
struct RecordingChain {
    dirs: HookDirs,
    chain: Chain,
}

async fn recording_chain(yaml: &str, secrets: bool) -> RecordingChain {
    let dirs = HookDirs::new();
    dirs.put("odd", "hook.yaml", yaml.as_bytes());
    dirs.put_hook("odd");
    let chain = collect_recording(&dirs, secrets).await;
    RecordingChain { dirs, chain }
}

/// Collects the one hook in `dirs`, and records its runs.
async fn collect_recording(dirs: &HookDirs, secrets: bool) -> Chain {
    let dir = dirs.hooks().join("../records");
    let config = CollectConfig {
        record: Some(RecordConfig { dir, secrets }),
        ..dirs.config(1)
    };
    collect(config).await.unwrap()
}

/// The record files, oldest first.
fn record_files(dirs: &HookDirs) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dirs.hooks().join("../records")).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn last_record(dirs: &HookDirs) -> Record {
    Record::read(record_files(dirs).last().unwrap()).unwrap()
}

/// Replays a record with the misbehaving hook.
async fn replay_record(record: &Record) -> ReplayResult {
    replay(
        record,
        crate::fixture::misbehaving_hook(),
        false,
        LoadOptions::default(),
    )
    .await
    .unwrap()
}

#[tokio::test]
async fn a_replay_sees_the_recorded_random_numbers_and_time() {
    let RecordingChain { dirs, chain } =
        recording_chain("config: {manufacturer: ACME}\n", false).await;
    for behaviour in ["random", "config", "facts", "title", "log", "keep"] {
        chain
            .on_define_domain(&invocation(), behaviour, XML.into())
            .await
            .unwrap();
        let record = last_record(&dirs);
        assert_eq!(
            (record.outcome.as_str(), record.input.vmi.as_str()),
            ("ok", behaviour)
        );
        let replayed = replay_record(&record).await;
        assert!(
            replayed.difference.is_none() || behaviour == "facts",
            "{behaviour}: {:?}",
            replayed.difference
        );
        assert_eq!(replayed.run.changes.len(), record.changes.len());
    }
    let file = record_files(&dirs).pop().unwrap();
    assert_eq!(std::fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
    assert!(file.to_string_lossy().ends_with("-OnDefineDomain-odd.json"));
}

#[tokio::test]
async fn recorded_failures_are_reproduced() {
    let yaml = "allow: {paths: [/domain/description]}\ndeadline: 150ms\n";
    let RecordingChain { dirs, chain } = recording_chain(yaml, false).await;
    for (behaviour, outcome) in [
        ("veto", "veto"),
        ("panic", "trap"),
        ("loop", "deadline"),
        ("title", "denied"),
        ("malformed", "bad-output"),
    ] {
        assert!(
            chain
                .on_define_domain(&invocation(), behaviour, XML.into())
                .await
                .is_err()
        );
        let record = last_record(&dirs);
        assert_eq!(record.outcome, outcome);
        let replayed = replay_record(&record).await;
        assert!(
            replayed.difference.is_none(),
            "{behaviour}: {:?}",
            replayed.difference
        );
    }
    chain.shutdown(&invocation()).await;
    assert_eq!(last_record(&dirs).hook_point, "Shutdown");
    assert!(
        replay_record(&last_record(&dirs))
            .await
            .difference
            .is_none()
    );
}

#[tokio::test]
async fn differences_of_another_module_are_reported() {
    let RecordingChain { dirs, chain } = recording_chain("{}", false).await;
    chain
        .on_define_domain(&invocation(), "title", XML.into())
        .await
        .unwrap();
    let record = last_record(&dirs);
    let other = dirs.at("../new", "new.wasm");
    std::fs::write(
        &other,
        crate::fixture::misbehaving_hook_with("<title>odd</title>", "<title>new</title>"),
    )
    .unwrap();
    let refused = replay(&record, &other, false, LoadOptions::default())
        .await
        .unwrap_err();
    assert!(
        matches!(refused, ReplayError::OtherModule { .. }),
        "{refused}"
    );
    let replayed = replay(&record, &other, true, LoadOptions::default())
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
    let chain = collect_recording(&dirs, false).await;
    chain
        .on_define_domain(&invocation(), "title", XML.into())
        .await
        .unwrap();
    let record = last_record(&dirs);
    let refused = replay(
        &record,
        crate::fixture::misbehaving_hook(),
        false,
        LoadOptions::default(),
    )
    .await
    .unwrap_err();
    assert!(matches!(refused, ReplayError::Sidecar), "{refused}");
    let replayed = replay(
        &record,
        crate::fixture::misbehaving_hook(),
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
        let RecordingChain { dirs, chain } = recording_chain("{}", secrets).await;
        chain.pre_start(&invocation(), VMI).await.unwrap();
        chain
            .pre_cloud_init_iso(&invocation(), VMI, documents())
            .await
            .unwrap();
        for file in record_files(&dirs) {
            let text = std::fs::read_to_string(file).unwrap();
            assert_eq!(text.contains("hunter2"), secrets, "{text}");
        }
        let record = last_record(&dirs);
        let replayed = replay(
            &record,
            crate::fixture::misbehaving_hook(),
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
