//! Screenshot, dirty rate, GetVMStats and SEV.

use std::sync::Arc;

use libvirt::fake::{Call, FakeDaemon};
use libvirt::{LaunchSecret, LaunchSecurityInfo, Screenshot, SevInfo, code};
use proto::cmd::v1::*;
use serde_json::{Value, json};
use tonic::Code;
use virt_launcher::manager::Command;

use crate::command_client::{client, vmi_request};
use crate::fake_libvirt_rig::{DOMAIN, Rig, sync, vmi_json};
use crate::scripted_agent::{ScriptedAgent, eventually};
use crate::scripted_hooks::ScriptedHooks;

async fn running() -> Rig {
    let rig = Rig::with_stats(Arc::new(ScriptedHooks::default())).await;
    rig.manager.run(Command::sync(sync())).await.unwrap();
    rig
}

#[tokio::test(flavor = "multi_thread")]
async fn screenshot_is_answered_and_its_failure_is_a_grpc_error() {
    let rig = running().await;
    let mut client = client(&rig).await;
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
    rig.fake.set_screenshot(DOMAIN, picture.clone());
    let answer = client
        .get_screenshot(vmi_request())
        .await
        .unwrap()
        .into_inner();
    assert!(answer.response.unwrap().success);
    assert_eq!((answer.mime, answer.data), (picture.mime, picture.data));
    let huge = Screenshot {
        mime: "image/png".into(),
        data: vec![0; 5 << 20],
    };
    rig.fake.set_screenshot(DOMAIN, huge);
    let status = client.get_screenshot(vmi_request()).await.unwrap_err();
    assert!(status.message().contains("more than"), "{status}");
}

#[tokio::test(flavor = "multi_thread")]
async fn dirty_rate_is_that_of_its_own_measurement_and_is_shared() {
    let rig = running().await;
    rig.fake.set_dirty_rate(DOMAIN, 7);
    let ask = async || {
        let answer = client(&rig)
            .await
            .get_domain_dirty_rate_stats(EmptyRequest {})
            .await;
        let answer = answer.unwrap().into_inner();
        assert!(answer.response.as_ref().unwrap().success, "{answer:?}");
        answer.dirty_rate_mbs
    };
    let rates = futures_util::future::join_all((0..20).map(|_| ask())).await;
    assert_eq!(rates, [7; 20], "also the first answer");
    assert_eq!(rig.fake.count(Call::StartDirtyRate), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn dirty_rate_waits_for_another_measurement_and_names_failures() {
    let rig = running().await;
    let mut client = client(&rig).await;
    let refusal =
        "internal error: unable to execute QEMU command 'calc-dirty-rate': still in progress";
    rig.fake.fail_next(
        Call::StartDirtyRate,
        FakeDaemon::error(code::INTERNAL_ERROR, 10, refusal),
    );
    let answer = client
        .get_domain_dirty_rate_stats(EmptyRequest {})
        .await
        .unwrap()
        .into_inner();
    assert!(answer.response.unwrap().success);
    rig.fake.power_off(DOMAIN);
    tokio::time::sleep(std::time::Duration::from_secs(3)).await;
    let answer = client
        .get_domain_dirty_rate_stats(EmptyRequest {})
        .await
        .unwrap()
        .into_inner();
    let response = answer.response.unwrap();
    assert!(
        !response.success && response.message.contains("not running"),
        "{response:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn vm_stats_answer_what_is_asked_for_and_name_what_failed() {
    let rig = running().await;
    let agent = ScriptedAgent::recorded();
    agent.answer("guest-get-cpustats", json!([{"type": "linux", "cpu": 0}]));
    agent.connect(&rig);
    let mut client = client(&rig).await;
    eventually("the agent's version", async || {
        agent.count("guest-get-load") > 0
    })
    .await;
    let empty = client
        .get_vm_stats(VmStatsRequest::default())
        .await
        .unwrap()
        .into_inner();
    assert!(empty.response.unwrap().success);
    assert!(empty.domain_stats.is_none() && empty.guest_agent_version.is_none());
    let request = VmStatsRequest {
        domain_stats: Some(DomainStatsRequest {}),
        guest_get_load: Some(AgentLoadRequest {}),
        guest_get_cpu_stats: Some(AgentCpuStatsRequest {}),
        ..VmStatsRequest::default()
    };
    for _ in 0..3 {
        let answer = client.get_vm_stats(request).await.unwrap().into_inner();
        assert_eq!(answer.guest_agent_version.unwrap().message, "7.2.22");
        let cpus = answer.guest_get_cpu_stats.unwrap();
        assert_eq!(cpus.message, r#"{"return":[{"type":"linux","cpu":0}]}"#);
        assert!(answer.domain_stats.unwrap().response.unwrap().success);
        let response = answer.response.unwrap();
        assert!(!response.success);
        assert!(
            response.message.starts_with("agent data guest-get-load: failed to get agent data for guest-get-load: virError(Code=113, "),
            "{}",
            response.message
        );
    }
    assert_eq!(agent.count("guest-get-cpustats"), 1, "answers are kept");
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_agent_is_asked_once_for_all_statistics() {
    let rig = running().await;
    let mut client = client(&rig).await;
    let request = VmStatsRequest {
        guest_get_users: Some(AgentUsersRequest {}),
        guest_get_disks: Some(AgentDisksRequest {}),
        guest_get_time: Some(AgentTimeRequest {}),
        ..VmStatsRequest::default()
    };
    let before = rig.fake.count(Call::Agent);
    let answer = client.get_vm_stats(request).await.unwrap().into_inner();
    assert_eq!(rig.fake.count(Call::Agent), before + 1);
    for field in [
        answer.guest_get_users,
        answer.guest_get_disks,
        answer.guest_get_time,
    ] {
        assert!(field.unwrap().message.contains("Code=86"));
    }
}

/// The hardware is simulated: libvirt's answers are what a node with SEV gives.
#[tokio::test(flavor = "multi_thread")]
async fn simulated_sev_is_answered_in_kubevirts_json() {
    let rig = running().await;
    let mut client = client(&rig).await;
    let answer = client
        .get_sev_info(EmptyRequest {})
        .await
        .unwrap()
        .into_inner();
    assert_eq!(
        answer.response.unwrap().message,
        "LibvirtError(Code=84, Domain=10, Message='Operation not supported: QEMU does not support SEV guest')"
    );
    rig.fake.set_sev_info(SevInfo {
        pdh: "UERI".into(),
        cert_chain: "Q0hBSU4=".into(),
    });
    let answer = client
        .get_sev_info(EmptyRequest {})
        .await
        .unwrap()
        .into_inner();
    assert_eq!(answer.sev_info, br#"{"pdh":"UERI","certChain":"Q0hBSU4="}"#);

    let measure = async || {
        let mut client = client.clone();
        client
            .get_launch_measurement(vmi_request())
            .await
            .unwrap()
            .into_inner()
    };
    let response = measure().await.response.unwrap();
    assert!(response.message.contains("no SEV"), "{response:?}");
    rig.fake.set_launch_security(
        DOMAIN,
        LaunchSecurityInfo {
            measurement: "TUVBU1VSRQ==".into(),
            api_major: 1,
            api_minor: 51,
            build_id: 3,
            policy: 1,
        },
    );
    let response = measure().await.response.unwrap();
    assert!(
        response.message.contains("OVMF_CODE.cc.fd"),
        "no firmware: {response:?}"
    );
    std::fs::create_dir_all(rig.ovmf()).unwrap();
    std::fs::write(rig.ovmf().join("OVMF_CODE.cc.fd"), b"firmware").unwrap();
    let json: Value = serde_json::from_slice(&measure().await.launch_measurement).unwrap();
    assert_eq!(
        json,
        json!({"measurement": "TUVBU1VSRQ==", "apiMajor": 1, "apiMinor": 51, "buildID": 3, "policy": 1,
        "loaderSHA": "c3bf47ea1f4a4a605470313cacb3a44f4a461f68c6faeab07e737610cb5ac835"})
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn launch_secret_reaches_a_simulated_sev_guest() {
    let rig = running().await;
    let client = client(&rig).await;
    let inject = async |options: &str| {
        let request = InjectLaunchSecretRequest {
            vmi: Some(Vmi {
                vmi_json: vmi_json().to_string().into_bytes(),
            }),
            options: options.as_bytes().to_vec(),
        };
        let mut client = client.clone();
        client
            .inject_launch_secret(request)
            .await
            .unwrap()
            .into_inner()
    };
    let no_options = "No valid secret options present in command server request";
    assert_eq!(inject("{").await.message, no_options);
    assert_eq!(inject("{}").await.message, "Header is required");
    assert_eq!(
        inject(r#"{"header":"SA=="}"#).await.message,
        "Secret is required"
    );
    let whole = r#"{"header":"SA==","secret":"Uw=="}"#;
    let answer = inject(whole).await;
    assert!(
        !answer.success && answer.message.contains("Code=84"),
        "{answer:?}"
    );
    rig.fake
        .set_launch_security(DOMAIN, LaunchSecurityInfo::default());
    assert!(inject(whole).await.success);
    let given = LaunchSecret {
        header: "SA==".into(),
        secret: "Uw==".into(),
    };
    assert!(rig.fake.launch_secret(DOMAIN) == Some(given));
}
