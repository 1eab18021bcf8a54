//! GetScreenshot: the picture of the VM's screen.

use libvirt::Screenshot;
use proto::cmd::v1::VmiRequest;
use tonic::Code;

use crate::support::command_client::{client, vmi_request};
use crate::support::test_launcher::{DOMAIN, launcher_with_vm_stats};

#[tokio::test(flavor = "multi_thread")]
async fn screenshot_is_answered_and_its_failure_is_a_grpc_error() {
    let launcher = launcher_with_vm_stats().await;
    let mut client = client(&launcher).await;
    let status = client.get_screenshot(vmi_request()).await.unwrap_err();
    assert_eq!(status.code(), Code::Unknown);
    assert!(
        status.message().starts_with("LibvirtError(Code=1, "),
        "{status}"
    );
    let status = client
        .get_screenshot(VmiRequest::default())
        .await
        .unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    let picture = Screenshot {
        mime: "image/png".into(),
        data: b"\x89PNG".to_vec(),
    };
    launcher.fake.set_screenshot(DOMAIN, picture.clone());
    let answer = client
        .get_screenshot(vmi_request())
        .await
        .unwrap()
        .into_inner();
    assert!(answer.response.unwrap().success);
    assert_eq!((answer.mime, answer.data), (picture.mime, picture.data));
    let too_large = Screenshot {
        mime: "image/png".into(),
        data: vec![0; 5 << 20],
    };
    launcher.fake.set_screenshot(DOMAIN, too_large);
    let status = client.get_screenshot(vmi_request()).await.unwrap_err();
    assert!(status.message().contains("more than"), "{status}");
}
