//! GetVMStats.

use std::time::Duration;

use libvirt::fake::Call;
use proto::cmd::v1::*;
use serde_json::json;

use crate::command_client::client;
use crate::scripted_agent::{ScriptedAgent, eventually};
use crate::test_launcher::running_with_stats;

#[tokio::test(flavor = "multi_thread")]
async fn vm_stats_answer_what_is_asked_for_and_name_what_failed() {
    let launcher = running_with_stats().await;
    let agent = ScriptedAgent::recorded();
    agent.answer("guest-get-cpustats", json!([{"type": "linux", "cpu": 0}]));
    agent.connect(&launcher);
    let mut client = client(&launcher).await;
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
    let launcher = running_with_stats().await;
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

/// virt-handler gives the request up after 5 s, and would lose the domain's statistics, too.
#[tokio::test(flavor = "multi_thread")]
async fn agent_that_hangs_costs_only_its_own_statistics() {
    let launcher = running_with_stats().await;
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
