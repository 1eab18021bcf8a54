//! Clients of the command socket, and requests of the command service.

use hyper_util::rt::TokioIo;
use proto::cmd::v1::cmd_client::CmdClient;
use proto::cmd::v1::*;
use serde_json::{Value, json};
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint, Uri};

use super::test_launcher::{DOMAIN, TestLauncher, vmi_json};

pub(crate) async fn channel(launcher: &TestLauncher) -> Channel {
    let path = launcher.paths.ready_socket();
    let connect = tower::service_fn(move |_: Uri| {
        let path = path.clone();
        async move { UnixStream::connect(path).await.map(TokioIo::new) }
    });
    Endpoint::from_static("http://localhost")
        .connect_with_connector(connect)
        .await
        .unwrap()
}

pub(crate) async fn client(launcher: &TestLauncher) -> CmdClient<Channel> {
    CmdClient::new(channel(launcher).await)
}

/// The protobuf message for a VMI.
pub(crate) fn vmi_message(vmi: &Value) -> Option<Vmi> {
    Some(Vmi {
        vmi_json: vmi.to_string().into_bytes(),
    })
}

/// A request with a VMI.
pub(crate) fn vmi_request_for(vmi: &Value) -> VmiRequest {
    VmiRequest {
        vmi: vmi_message(vmi),
        options: None,
    }
}

/// A request with the VMI of [`vmi_json`].
pub(crate) fn vmi_request() -> VmiRequest {
    vmi_request_for(&vmi_json())
}

/// A request whose VMI is not JSON.
pub(crate) fn invalid_vmi_request() -> VmiRequest {
    VmiRequest {
        vmi: Some(Vmi {
            vmi_json: b"{".to_vec(),
        }),
        options: None,
    }
}

/// The VMI with this state of changed block tracking (`Enabled`, `Initializing`, `Disabled`).
pub(crate) fn vmi_with_block_tracking(state: &str) -> Option<Vmi> {
    let mut vmi = vmi_json();
    vmi["status"]["changedBlockTracking"] = json!({ "state": state });
    vmi_message(&vmi)
}

/// Requests a backup. `state` is that of changed block tracking.
pub(crate) async fn backup(launcher: &TestLauncher, state: &str, options: Value) -> Response {
    let request = BackupRequest {
        vmi: vmi_with_block_tracking(state),
        options: options.to_string().into_bytes(),
    };
    let answer = client(launcher).await.backup_virtual_machine(request).await;
    answer.unwrap().into_inner()
}

/// The options that start a backup.
pub(crate) fn backup_start_options() -> Value {
    json!({
        "backupName": "bk1", "cmd": "Start", "mode": "Push", "targetPath": "/nonexistent/bk",
        "backupStartTime": "2026-11-21T13:10:00Z",
    })
}

/// Freezes the guest's file systems. The launcher thaws them after the timeout; zero is no timeout.
pub(crate) async fn freeze(launcher: &TestLauncher, unfreeze_timeout_seconds: i32) -> Response {
    let request = FreezeRequest {
        vmi: vmi_message(&vmi_json()),
        unfreeze_timeout_seconds,
    };
    let answer = client(launcher).await.freeze_virtual_machine(request).await;
    answer.unwrap().into_inner()
}

pub(crate) async fn unfreeze(launcher: &TestLauncher) -> Response {
    let answer = client(launcher)
        .await
        .unfreeze_virtual_machine(vmi_request())
        .await;
    answer.unwrap().into_inner()
}

/// A request to run a program in the guest.
pub(crate) fn exec_request(program: &str, timeout_seconds: i32) -> ExecRequest {
    ExecRequest {
        domain_name: DOMAIN.into(),
        command: program.into(),
        args: vec!["a \"quoted\" word".into()],
        timeout_seconds,
    }
}

/// The response to GetGuestInfo.
pub(crate) async fn guest_info(launcher: &TestLauncher) -> Value {
    let answer = client(launcher)
        .await
        .get_guest_info(EmptyRequest {})
        .await
        .unwrap()
        .into_inner();
    assert!(answer.response.unwrap().success);
    serde_json::from_str(&answer.guest_info_response).unwrap()
}
