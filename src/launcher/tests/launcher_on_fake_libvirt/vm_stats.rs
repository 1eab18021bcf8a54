//! GetVMStats: statistics of the domain and from the guest agent.

use std::time::Duration;

use libvirt::fake::Call;
use proto::cmd::v1::*;
use serde_json::json;

use crate::support::command_client::client;
use crate::support::scripted_guest_agent::ScriptedAgent;
use crate::support::test_launcher::{launcher_with_vm_stats, wait_for};

#[tokio::test(flavor = "multi_thread")]
async fn vm_stats_have_the_requested_parts_and_report_failed_ones() {
    let launcher = launcher_with_vm_stats().await;
    let agent = ScriptedAgent::recorded();
    agent.answer("guest-get-cpustats", json!([{"type": "linux", "cpu": 0}]));
    agent.connect(&launcher);
    let mut client = client(&launcher).await;
    wait_for("the agent to be polled", async || {
        agent.count("guest-get-load") > 0
    })
    .await;
    let nothing_requested = client
        .get_vm_stats(VmStatsRequest::default())
        .await
        .unwrap()
        .into_inner();
    assert!(nothing_requested.response.unwrap().success);
    assert!(
        nothing_requested.domain_stats.is_none() && nothing_requested.guest_agent_version.is_none()
    );
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
    assert_eq!(
        agent.count("guest-get-cpustats"),
        1,
        "the agent's answers are cached"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_agent_gets_one_command_for_all_statistics() {
    let launcher = launcher_with_vm_stats().await;
    let mut client = client(&launcher).await;
    let request = VmStatsRequest {
        guest_get_users: Some(AgentUsersRequest {}),
        guest_get_disks: Some(AgentDisksRequest {}),
        guest_get_time: Some(AgentTimeRequest {}),
        ..VmStatsRequest::default()
    };
    let before = launcher.fake.count(Call::Agent);
    let answer = client.get_vm_stats(request).await.unwrap().into_inner();
    assert_eq!(launcher.fake.count(Call::Agent), before + 1);
    for field in [
        answer.guest_get_users,
        answer.guest_get_disks,
        answer.guest_get_time,
    ] {
        assert!(field.unwrap().message.contains("Code=86"));
    }
}

/// virt-handler cancels the request after 5 s, and would lose the domain's statistics, too.
#[tokio::test(flavor = "multi_thread")]
async fn hanging_agent_does_not_delay_the_domains_statistics() {
    let launcher = launcher_with_vm_stats().await;
    let agent = ScriptedAgent::recorded();
    agent.connect(&launcher);
    let mut client = client(&launcher).await;
    launcher.fake.delay(Call::Agent, Duration::from_secs(8));
    let request = VmStatsRequest {
        domain_stats: Some(DomainStatsRequest {}),
        guest_get_users: Some(AgentUsersRequest {}),
        guest_get_disks: Some(AgentDisksRequest {}),
        ..VmStatsRequest::default()
    };
    let answer = client.get_vm_stats(request).await.unwrap().into_inner();
    assert!(answer.domain_stats.unwrap().response.unwrap().success);
    for field in [answer.guest_get_users, answer.guest_get_disks] {
        let message = field.unwrap().message;
        assert!(message.ends_with("no answer within 4.3s"), "{message}");
    }
}
