//! Exec: a program that runs in the guest through its agent.

use std::sync::Arc;

use libvirt::fake::FakeDaemon;
use libvirt::{code, origin};
use proto::cmd::v1::*;
use serde_json::Value;
use tonic::Code;

use crate::support::command_client::{client, exec_request};
use crate::support::test_launcher::{DOMAIN, TestLauncher};

/// A guest agent: `/bin/slow` never exits, and other programs exit with 3.
fn agent(command: &str) -> libvirt::Result<String> {
    let command: Value = serde_json::from_str(command)
        .map_err(|_| FakeDaemon::error(code::INTERNAL_ERROR, origin::QEMU, "no JSON"))?;
    let answer = match command["execute"].as_str() {
        Some("guest-ping") => "{}",
        Some("guest-exec") if command["arguments"]["path"] == "/bin/slow" => r#"{"pid":1}"#,
        Some("guest-exec") if command["arguments"]["arg"][0] == "a \"quoted\" word" => {
            r#"{"pid":7}"#
        }
        Some("guest-exec-status") if command["arguments"]["pid"] == 7 => {
            r#"{"exited":true,"exitcode":3,"out-data":"aGVsbG8K"}"#
        }
        Some("guest-exec-status") => r#"{"exited":false}"#,
        _ => {
            return Err(FakeDaemon::error(
                code::INTERNAL_ERROR,
                origin::QEMU,
                "unknown command",
            ));
        }
    };
    Ok(format!(r#"{{"return":{answer}}}"#))
}

#[tokio::test(flavor = "multi_thread")]
async fn exec_runs_a_command_in_the_guest() {
    let launcher = TestLauncher::new().await;
    launcher.sync_vm().await.unwrap();
    launcher.fake.set_agent(DOMAIN, Some(Arc::new(agent)));
    let mut client = client(&launcher).await;
    let exited = client
        .exec(exec_request("/bin/fails", 5))
        .await
        .unwrap()
        .into_inner();
    assert!(exited.response.unwrap().success);
    assert_eq!((exited.exit_code, exited.std_out.as_str()), (3, "hello\n"));
    let status = client.exec(exec_request("/bin/slow", 1)).await.unwrap_err();
    assert_eq!(status.code(), Code::Unknown);
    assert_eq!(
        status.message(),
        "Timed out waiting for guest pid [1] for command [/bin/slow] to exit"
    );
    let ping = GuestPingRequest {
        domain_name: DOMAIN.into(),
        timeout_seconds: 1,
    };
    assert!(
        client
            .guest_ping(ping)
            .await
            .unwrap()
            .into_inner()
            .response
            .unwrap()
            .success
    );
}
