//! Requests with VMIs or plugins that are invalid or too large.

use std::sync::Arc;

use hook_host::Chain;
use proto::cmd::v1::*;
use serde_json::json;
use tonic::Code;

use crate::support::command_client::{client, invalid_vmi_request, vmi_message, vmi_request};
use crate::support::test_launcher::{DOMAIN, TestLauncher, vmi_json};

#[tokio::test(flavor = "multi_thread")]
async fn invalid_vmi_gives_kubevirts_message() {
    let launcher = TestLauncher::new().await;
    let mut client = client(&launcher).await;
    let answers = [
        client.sync_virtual_machine(invalid_vmi_request()).await,
        client.pause_virtual_machine(invalid_vmi_request()).await,
        client.kill_virtual_machine(invalid_vmi_request()).await,
        client
            .soft_reboot_virtual_machine(VmiRequest::default())
            .await,
    ];
    for answer in answers {
        let answer = answer.unwrap().into_inner();
        assert!(!answer.success);
        assert_eq!(
            answer.message,
            "No valid vmi object present in command server request"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unconvertible_vmi_is_refused_with_the_reason() {
    let launcher = TestLauncher::new().await;
    let mut json = vmi_json();
    json["spec"]["domain"]["devices"]["disks"] =
        json!([{"name": "lost", "disk": {"bus": "virtio"}}]);
    let request = VmiRequest {
        vmi: vmi_message(&json),
        options: None,
    };
    let answer = client(&launcher)
        .await
        .sync_virtual_machine(request)
        .await
        .unwrap()
        .into_inner();
    assert!(
        !answer.success && answer.message.contains("lost"),
        "{answer:?}"
    );
}

/// Sends SyncVirtualMachine with plugins as JSON.
async fn sync_with_plugins(launcher: &TestLauncher, plugins: &str) -> Response {
    let request = VmiRequest {
        options: Some(VirtualMachineOptions {
            plugins_json: plugins.as_bytes().to_vec(),
            ..Default::default()
        }),
        ..vmi_request()
    };
    let answer = client(launcher).await.sync_virtual_machine(request).await;
    answer.unwrap().into_inner()
}

#[tokio::test(flavor = "multi_thread")]
async fn unusable_plugin_refuses_the_start_before_any_change() {
    let launcher = TestLauncher::with_hooks(Arc::new(Chain::default())).await;
    let answer = sync_with_plugins(&launcher, "{").await;
    assert!(
        !answer.success && answer.message.contains("failed to deserialize plugins"),
        "{answer:?}"
    );
    let plugin = |strategy: &str| {
        let hook = r#"{"cel":{"expression":"Domain{}"}}"#;
        format!(
            r#"[{{"metadata":{{"name":"numa"}},"spec":{{"failureStrategy":"{strategy}","domainHooks":[{hook}]}}}}]"#
        )
    };
    let answer = sync_with_plugins(&launcher, &plugin("Fail")).await;
    assert!(
        !answer.success
            && answer
                .message
                .contains("spec.domainHooks[0].cel of plugin numa"),
        "{answer:?}"
    );
    assert!(launcher.fake.state(DOMAIN).is_none());
    launcher.notifications_until("HookFailed").await;
    let answer = sync_with_plugins(&launcher, &plugin("Ignore")).await;
    assert!(answer.success, "{answer:?}");
    assert!(launcher.fake.state(DOMAIN).is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn oversized_request_is_refused() {
    let launcher = TestLauncher::new().await;
    let request = VmiRequest {
        vmi: Some(Vmi {
            vmi_json: vec![b' '; 7 << 20],
        }),
        options: None,
    };
    let status = client(&launcher)
        .await
        .sync_virtual_machine(request)
        .await
        .unwrap_err();
    assert_eq!(status.code(), Code::OutOfRange, "{status}");
    assert!(
        client(&launcher)
            .await
            .ping(EmptyRequest {})
            .await
            .unwrap()
            .into_inner()
            .success
    );
}
