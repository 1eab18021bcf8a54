//! The responses of the command service on its socket.

use std::sync::Arc;
use std::time::Duration;

use proto::cmd::info::CmdInfoRequest;
use proto::cmd::info::cmd_info_client::CmdInfoClient;
use proto::cmd::v1::*;
use serde_json::{Value, json};
use tonic::Code;

use crate::support::command_client::{
    channel, client, exec_request, invalid_vmi_request, vmi_request,
};
use crate::support::test_launcher::{DOMAIN, TestLauncher};

#[tokio::test(flavor = "multi_thread")]
async fn ready_socket_answers() {
    let launcher = TestLauncher::new().await;
    assert!(launcher.paths.ready_socket().exists());
    assert!(!launcher.paths.init_socket().exists());
    let info = CmdInfoClient::new(channel(&launcher).await)
        .info(CmdInfoRequest {})
        .await
        .unwrap();
    assert_eq!(info.into_inner().supported_cmd_versions, [1]);
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

#[tokio::test(flavor = "multi_thread")]
async fn commands_change_the_domain() {
    let launcher = TestLauncher::new().await;
    let mut client = client(&launcher).await;
    let without_domain = client
        .get_domain(EmptyRequest {})
        .await
        .unwrap()
        .into_inner();
    assert!(without_domain.response.unwrap().success && without_domain.domain.is_empty());
    assert!(
        client
            .sync_virtual_machine(vmi_request())
            .await
            .unwrap()
            .into_inner()
            .success
    );
    let domain = client
        .get_domain(EmptyRequest {})
        .await
        .unwrap()
        .into_inner();
    let domain: Value = serde_json::from_str(&domain.domain).unwrap();
    assert_eq!(domain["kind"], "Domain");
    assert_eq!(
        domain["ObjectMeta"],
        json!({ "name": "vm1", "namespace": "default" })
    );
    assert_eq!(domain["Spec"]["Metadata"]["KubeVirt"]["UID"], "1234");
    assert_eq!(domain["Status"]["Status"], "Running");
    let stats = client
        .get_domain_stats(EmptyRequest {})
        .await
        .unwrap()
        .into_inner();
    assert!(stats.response.unwrap().success, "{}", stats.domain_stats);
    let stats: Value = serde_json::from_str(&stats.domain_stats).unwrap();
    assert_eq!(stats["Name"], DOMAIN);
    let version = client
        .get_qemu_version(EmptyRequest {})
        .await
        .unwrap()
        .into_inner();
    assert!(version.version.starts_with("QEMU "), "{}", version.version);
    let answers = [
        client.pause_virtual_machine(vmi_request()).await,
        client.unpause_virtual_machine(vmi_request()).await,
        client.reset_virtual_machine(vmi_request()).await,
        client.soft_reboot_virtual_machine(vmi_request()).await,
        client.kill_virtual_machine(vmi_request()).await,
        client.delete_virtual_machine(vmi_request()).await,
    ];
    for answer in answers {
        let answer = answer.unwrap().into_inner();
        assert!(answer.success, "{}", answer.message);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn queries_without_an_agent_are_empty_and_succeed() {
    let launcher = TestLauncher::new().await;
    let mut client = client(&launcher).await;
    let info = client
        .get_guest_info(EmptyRequest {})
        .await
        .unwrap()
        .into_inner();
    assert!(info.response.unwrap().success);
    assert_eq!(
        info.guest_info_response,
        r#"{"os":{},"timezone":", 0","fsInfo":{"disks":null}}"#
    );
    let users = client
        .get_users(EmptyRequest {})
        .await
        .unwrap()
        .into_inner();
    assert_eq!(users.guest_user_list_response, "[]");
    let filesystems = client
        .get_filesystems(EmptyRequest {})
        .await
        .unwrap()
        .into_inner();
    assert!(filesystems.response.unwrap().success);
    assert_eq!(filesystems.guest_filesystems_response, "[]");
}

#[tokio::test(flavor = "multi_thread")]
async fn probe_waits_for_a_slow_agent_as_long_as_its_timeout_says() {
    let launcher = TestLauncher::new().await;
    launcher.sync_vm().await.unwrap();
    let agent = |json: &str| {
        if json.contains("guest-ping") {
            std::thread::sleep(Duration::from_secs(8));
        }
        Ok(r#"{"return":{}}"#.to_owned())
    };
    launcher.fake.set_agent(DOMAIN, Some(Arc::new(agent)));
    let probe = async |timeout_seconds| {
        let domain_name = DOMAIN.into();
        let request = GuestPingRequest {
            domain_name,
            timeout_seconds,
        };
        client(&launcher).await.guest_ping(request).await
    };
    let (patient, short) = tokio::join!(probe(20), probe(1));
    assert!(patient.unwrap().into_inner().response.unwrap().success);
    short.unwrap_err();
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_agent_is_an_unknown_error_with_libvirts_code() {
    let launcher = TestLauncher::new().await;
    launcher.sync_vm().await.unwrap();
    let mut client = client(&launcher).await;
    let ping = GuestPingRequest {
        domain_name: DOMAIN.into(),
        timeout_seconds: 1,
    };
    let status = client.guest_ping(ping).await.unwrap_err();
    assert_eq!(status.code(), Code::Unknown);
    assert!(
        status.message().starts_with("virError(Code=86, "),
        "{}",
        status.message()
    );
    let notifications = launcher.notifications_until("EVENT").await;
    assert!(notifications.contains(
        &"EVENT GuestAgentPingFailed: GuestAgentPing probe failed for VMI vm1".to_owned()
    ));
    let status = client.exec(exec_request("/bin/true", 1)).await.unwrap_err();
    assert_eq!(status.code(), Code::Unknown);
    assert!(status.message().contains("Code=86"), "{}", status.message());
}

#[tokio::test(flavor = "multi_thread")]
async fn disabled_statistics_are_an_unknown_error() {
    let launcher = TestLauncher::new().await;
    let status = client(&launcher)
        .await
        .get_vm_stats(VmStatsRequest::default())
        .await
        .unwrap_err();
    assert_eq!(status.code(), Code::Unknown);
}

#[tokio::test(flavor = "multi_thread")]
async fn cleanup_signal_for_another_pod_does_nothing() {
    let launcher = TestLauncher::new().await;
    let mut client = client(&launcher).await;
    for (request, succeeds) in [(vmi_request(), true), (invalid_vmi_request(), false)] {
        let answer = client.signal_target_pod_cleanup(request).await.unwrap();
        assert_eq!(answer.into_inner().success, succeeds);
    }
}
