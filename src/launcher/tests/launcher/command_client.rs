//! Clients of the command socket, and requests for them.

use hyper_util::rt::TokioIo;
use proto::cmd::v1::cmd_client::CmdClient;
use proto::cmd::v1::*;
use serde_json::{Value, json};
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint, Uri};

use crate::test_launcher::{TestLauncher, vmi_json};

pub(crate) async fn channel(launcher: &TestLauncher) -> Channel {
    let path = launcher.paths.ready_socket();
    let dial = tower::service_fn(move |_: Uri| {
        let path = path.clone();
        async move { UnixStream::connect(path).await.map(TokioIo::new) }
    });
    Endpoint::from_static("http://localhost")
        .connect_with_connector(dial)
        .await
        .unwrap()
}

pub(crate) async fn client(launcher: &TestLauncher) -> CmdClient<Channel> {
    CmdClient::new(channel(launcher).await)
}

pub(crate) fn vmi_request() -> VmiRequest {
    VmiRequest {
        vmi: Some(Vmi {
            vmi_json: vmi_json().to_string().into_bytes(),
        }),
        options: None,
    }
}

pub(crate) fn unreadable_vmi_request() -> VmiRequest {
    VmiRequest {
        vmi: Some(Vmi {
            vmi_json: b"{".to_vec(),
        }),
        options: None,
    }
}

/// The VMI with this state of changed block tracking.
pub(crate) fn vmi_with_tracking(state: &str) -> Option<Vmi> {
    let mut vmi = vmi_json();
    vmi["status"]["changedBlockTracking"] = json!({ "state": state });
    Some(Vmi {
        vmi_json: vmi.to_string().into_bytes(),
    })
}

pub(crate) async fn backup(launcher: &TestLauncher, state: &str, options: Value) -> Response {
    let request = BackupRequest {
        vmi: vmi_with_tracking(state),
        options: options.to_string().into_bytes(),
    };
    let answer = client(launcher).await.backup_virtual_machine(request).await;
    answer.unwrap().into_inner()
}

/// The options of a backup that starts.
pub(crate) fn backup_start() -> Value {
    json!({
        "backupName": "bk1", "cmd": "Start", "mode": "Push", "targetPath": "/nonexistent/bk",
        "backupStartTime": "2026-11-21T13:10:00Z",
    })
}
