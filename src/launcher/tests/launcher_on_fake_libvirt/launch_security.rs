//! Confidential guests on AMD SEV: GetSEVInfo, GetLaunchMeasurement and InjectLaunchSecret.

use libvirt::{LaunchSecret, LaunchSecurityInfo, SevInfo};
use proto::cmd::v1::*;
use serde_json::{Value, json};

use crate::support::command_client::{client, vmi_message, vmi_request};
use crate::support::test_launcher::{DOMAIN, launcher_with_vm_stats, vmi_json};

#[tokio::test(flavor = "multi_thread")]
async fn simulated_sev_is_answered_in_kubevirts_json() {
    let launcher = launcher_with_vm_stats().await;
    let mut client = client(&launcher).await;
    let answer = client
        .get_sev_info(EmptyRequest {})
        .await
        .unwrap()
        .into_inner();
    assert_eq!(
        answer.response.unwrap().message,
        "LibvirtError(Code=84, Domain=10, Message='Operation not supported: QEMU does not support SEV guest')"
    );
    launcher.fake.set_sev_info(SevInfo {
        pdh: "UERI".into(),
        cert_chain: "Q0hBSU4=".into(),
    });
    let answer = client
        .get_sev_info(EmptyRequest {})
        .await
        .unwrap()
        .into_inner();
    assert_eq!(answer.sev_info, br#"{"pdh":"UERI","certChain":"Q0hBSU4="}"#);

    let get_measurement = async || {
        let mut client = client.clone();
        client
            .get_launch_measurement(vmi_request())
            .await
            .unwrap()
            .into_inner()
    };
    let response = get_measurement().await.response.unwrap();
    assert!(response.message.contains("no SEV"), "{response:?}");
    launcher.fake.set_launch_security(
        DOMAIN,
        LaunchSecurityInfo {
            measurement: "TUVBU1VSRQ==".into(),
            api_major: 1,
            api_minor: 51,
            build_id: 3,
            policy: 1,
        },
    );
    let response = get_measurement().await.response.unwrap();
    assert!(
        response.message.contains("OVMF_CODE.cc.fd"),
        "the firmware is missing: {response:?}"
    );
    std::fs::create_dir_all(launcher.ovmf_path()).unwrap();
    std::fs::write(launcher.ovmf_path().join("OVMF_CODE.cc.fd"), b"firmware").unwrap();
    let json: Value = serde_json::from_slice(&get_measurement().await.launch_measurement).unwrap();
    assert_eq!(
        json,
        json!({"measurement": "TUVBU1VSRQ==", "apiMajor": 1, "apiMinor": 51, "buildID": 3, "policy": 1,
        "loaderSHA": "c3bf47ea1f4a4a605470313cacb3a44f4a461f68c6faeab07e737610cb5ac835"})
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn launch_secret_reaches_a_simulated_sev_guest() {
    let launcher = launcher_with_vm_stats().await;
    let client = client(&launcher).await;
    let inject = async |options: &str| {
        let request = InjectLaunchSecretRequest {
            vmi: vmi_message(&vmi_json()),
            options: options.as_bytes().to_vec(),
        };
        let mut client = client.clone();
        client
            .inject_launch_secret(request)
            .await
            .unwrap()
            .into_inner()
    };
    let invalid_options = "No valid secret options present in command server request";
    assert_eq!(inject("{").await.message, invalid_options);
    assert_eq!(inject("{}").await.message, "Header is required");
    assert_eq!(
        inject(r#"{"header":"SA=="}"#).await.message,
        "Secret is required"
    );
    let options = r#"{"header":"SA==","secret":"Uw=="}"#;
    let answer = inject(options).await;
    assert!(
        !answer.success && answer.message.contains("Code=84"),
        "{answer:?}"
    );
    launcher
        .fake
        .set_launch_security(DOMAIN, LaunchSecurityInfo::default());
    assert!(inject(options).await.success);
    let expected = LaunchSecret {
        header: "SA==".into(),
        secret: "Uw==".into(),
    };
    assert!(launcher.fake.launch_secret(DOMAIN) == Some(expected));
}
