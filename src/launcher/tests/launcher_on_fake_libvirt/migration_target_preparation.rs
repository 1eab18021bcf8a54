//! Preparation of a migration's target: hooks, libvirt's hook script, sockets, and VMIs that cannot be prepared.

use std::sync::Arc;

use hook_host::{FailurePolicy, HookError, HookPoint, Outcome, Run};
use kubevirt_api::vmi::Vmi;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use virt_launcher::manager::Command;

use crate::support::migration_target_requests::{
    INCOMING_DOMAIN, prepare_target, target_sync_request,
};
use crate::support::scripted_hooks::{ScriptedHooks, successful_run_at};
use crate::support::test_launcher::{TestLauncher, sync_request_for, vmi_json};

#[tokio::test(flavor = "multi_thread")]
async fn repeated_preparation_does_not_end_a_running_libvirt_hook() {
    let launcher = TestLauncher::new().await;
    prepare_target(&launcher, "a").await.unwrap();
    let socket = launcher.paths.migration_hook_socket();
    let mut stream = UnixStream::connect(&socket).await.unwrap();
    let (begin, end) = INCOMING_DOMAIN.split_at(20);
    stream.write_all(begin.as_bytes()).await.unwrap();
    prepare_target(&launcher, "a").await.unwrap();
    stream.write_all(end.as_bytes()).await.unwrap();
    let mut edited = String::new();
    stream.read_to_string(&mut edited).await.unwrap();
    assert!(edited.contains("<name>default_vm1</name>"), "{edited}");
}

/// Sends a domain as libvirt's hook script does. Returns the launcher's response.
async fn send_to_hook_socket(launcher: &TestLauncher, xml: &str) -> String {
    let socket = launcher.paths.migration_hook_socket();
    let mut stream = UnixStream::connect(&socket).await.unwrap();
    stream.write_all(xml.as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test(flavor = "multi_thread")]
async fn hook_that_refuses_an_arrival_or_is_ignored_gets_one_event() {
    let hooks = Arc::new(ScriptedHooks::default());
    let launcher = TestLauncher::with_hooks(hooks.clone()).await;
    prepare_target(&launcher, "a").await.unwrap();
    *hooks.arrival_veto.lock().unwrap() = Some("not this node".into());
    for _ in 0..2 {
        send_to_hook_socket(&launcher, INCOMING_DOMAIN).await;
    }
    *hooks.arrival_veto.lock().unwrap() = None;
    let error = HookError::Veto {
        hook: "painter".into(),
        point: HookPoint::OnDefineDomain,
        message: "no".into(),
    };
    *hooks.runs.lock().unwrap() = vec![Run {
        outcome: Outcome::Failed(error),
        failure_policy: FailurePolicy::Ignore,
        ..successful_run_at(HookPoint::OnDefineDomain)
    }];
    let answer = send_to_hook_socket(&launcher, INCOMING_DOMAIN).await;
    assert!(answer.contains("<name>default_vm1</name>"), "{answer}");
    let refused = "EVENT HookDenied: hook policy refuses at OnDefineDomain: not this node";
    let ignored = "EVENT HookDenied: hook painter refuses at OnDefineDomain: no; ignored, as its failurePolicy says";
    let notifications = launcher.notifications_until("ignored").await;
    assert_eq!(notifications, [refused, ignored]);
}

#[tokio::test(flavor = "multi_thread")]
async fn veto_fails_the_preparation_and_a_repeated_request_runs_the_hooks_again() {
    let hooks = Arc::new(ScriptedHooks::default());
    *hooks.veto.lock().unwrap() = Some("not on this node".into());
    let launcher = TestLauncher::with_hooks(Arc::clone(&hooks) as _).await;
    let error = prepare_target(&launcher, "a").await.unwrap_err();
    let message = error.message();
    assert!(
        message.contains("policy") && message.contains("not on this node"),
        "{message}"
    );
    *hooks.veto.lock().unwrap() = None;
    prepare_target(&launcher, "a").await.unwrap();
    prepare_target(&launcher, "a").await.unwrap();
    assert_eq!(hooks.count("PreStart"), 3);
    assert_eq!(hooks.count("OnDefineDomain"), 2);
}

/// KubeVirt's functional tests cancel a migration while the annotation blocks the preparation.
#[tokio::test(flavor = "multi_thread")]
async fn annotation_of_functional_tests_holds_the_preparation_up() {
    let launcher = TestLauncher::new().await;
    let mut vmi = target_sync_request("a", |_| {}).vmi.value().clone();
    vmi["metadata"]["annotations"] =
        json!({"kubevirt.io/func-test-block-migration-target-preparation": ""});
    let vmi = Vmi::from_json(vmi.to_string().as_bytes()).unwrap();
    let blocked = Command::SyncMigrationTarget(Arc::new(sync_request_for(vmi)));
    let error = launcher.manager.run(blocked).await.unwrap_err();
    assert_eq!(
        error.message(),
        "Blocking preparation of migration target in order to satisfy a functional test condition"
    );
    assert!(!launcher.paths.share.join("migrationproxy").exists());
    prepare_target(&launcher, "a").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn older_transport_listens_for_the_source() {
    let launcher = TestLauncher::new().await;
    let loopback = target_sync_request("a", |status| status["migrationTransport"] = Value::Null);
    let command = Command::SyncMigrationTarget(Arc::new(loopback));
    launcher.manager.run(command).await.unwrap();
    let sockets = launcher.paths.share.join("migrationproxy");
    let socket = sockets.join("1234-49152-source.sock");
    UnixStream::connect(socket).await.unwrap();
    assert!(
        !sockets.join("1234-49153-source.sock").exists(),
        "no disk is copied"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn image_without_a_status_fails_the_preparation() {
    let launcher = TestLauncher::new().await;
    let mut vmi = vmi_json();
    vmi["status"]["migrationState"] = json!({"migrationUid": "a"});
    vmi["spec"]["volumes"] = json!([{"name": "ci", "cloudInitNoCloud": {"userData": "#!"}}]);
    vmi["spec"]["domain"]["devices"]["disks"] = json!([{"name": "ci", "disk": {"bus": "virtio"}}]);
    let request = sync_request_for(Vmi::from_json(vmi.to_string().as_bytes()).unwrap());
    let command = Command::SyncMigrationTarget(Arc::new(request));
    let error = launcher.manager.run(command).await.unwrap_err();
    assert_eq!(error.message(), "failed to find the status of volume ci");
}
