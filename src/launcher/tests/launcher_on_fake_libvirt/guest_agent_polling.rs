//! Polling of the guest agent: the responses to queries, the notifications, and the answers of a hostile agent.

use std::time::{Duration, Instant};

use libvirt::DomainStats;
use libvirt::fake::Call;
use proto::cmd::v1::EmptyRequest;
use serde_json::{Value, json};
use virt_launcher::manager::Command;

use crate::support::command_client::{client, guest_info};
use crate::support::scripted_guest_agent::{ScriptedAgent, launcher_with_agent};
use crate::support::test_launcher::{DOMAIN, wait_for};

#[tokio::test(flavor = "multi_thread")]
async fn queries_are_answered_as_by_kubevirts_launcher() {
    let agent = ScriptedAgent::recorded();
    let launcher = launcher_with_agent(&agent).await;
    wait_for("file systems", async || {
        !guest_info(&launcher).await["fsInfo"]["disks"].is_null()
    })
    .await;
    let mut client = client(&launcher).await;
    let info = client
        .get_guest_info(EmptyRequest {})
        .await
        .unwrap()
        .into_inner();
    assert_eq!(
        info.guest_info_response,
        r##"{"guestAgentVersion":"7.2.22","supportedCommands":[{"name":"guest-get-devices"},{"name":"guest-ping","enabled":true}],"hostname":"kvtest","os":{"name":"KV Test Guest","kernelRelease":"6.1.0-56-cloud-amd64","prettyName":"KV Test Guest 1","versionId":"1","kernelVersion":"#1 SMP PREEMPT_DYNAMIC Debian 6.1.192-2 (2026-11-16)","machine":"x86_64","id":"kvtest"},"timezone":"UTC, 0","fsInfo":{"disks":[{"diskName":"vda","mountPoint":"/mnt/vda","fileSystemType":"ext4","usedBytes":14336,"totalBytes":52685824,"disk":[{"busType":"virtio"}]}]},"fsFreezeStatus":"thawed"}"##
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
    assert_eq!(
        filesystems.guest_filesystems_response,
        r#"[{"diskName":"vda","mountPoint":"/mnt/vda","fileSystemType":"ext4","usedBytes":14336,"totalBytes":52685824,"disk":[{"busType":"virtio"}]}]"#
    );
    let domain = client
        .get_domain(EmptyRequest {})
        .await
        .unwrap()
        .into_inner();
    let domain: Value = serde_json::from_str(&domain.domain).unwrap();
    assert_eq!(
        domain["Status"]["Interfaces"],
        json!([{"Mac": "02:00:00:00:00:01", "Ip": "fec0::ff:fe00:1",
        "IPs": ["fec0::ff:fe00:1", "fe80::ff:fe00:1"], "InterfaceName": "eth0"}])
    );
    assert_eq!(domain["Status"]["OSInfo"]["Name"], "KV Test Guest");
    assert_eq!(domain["Status"]["FSFreezeStatus"]["Status"], "");
}

#[tokio::test(flavor = "multi_thread")]
async fn users_and_load_are_answered_with_their_units() {
    let agent = ScriptedAgent::recorded();
    let users: Vec<Value> = (0..12)
        .map(|number| json!({"user": format!("user{number}"), "login-time": 1_795_265_967.5}))
        .collect();
    agent.answer("guest-get-users", json!(users));
    agent.answer(
        "guest-get-load",
        json!({"load1m": 0.25, "load5m": 0.5, "load15m": 1}),
    );
    let launcher = launcher_with_agent(&agent).await;
    wait_for("load", async || agent.count("guest-get-load") > 0).await;
    let info = guest_info(&launcher).await;
    assert_eq!(
        info["userList"].as_array().unwrap().len(),
        10,
        "only the first ten"
    );
    assert_eq!(
        info["userList"][0],
        json!({"userName": "user0", "loginTime": 1_795_265_967.5})
    );
    let mut client = client(&launcher).await;
    let all = client
        .get_users(EmptyRequest {})
        .await
        .unwrap()
        .into_inner();
    let all: Value = serde_json::from_str(&all.guest_user_list_response).unwrap();
    assert_eq!(all.as_array().unwrap().len(), 12);
    launcher.fake.set_stats(DOMAIN, DomainStats::default());
    wait_for("load averages", async || {
        let stats = client
            .clone()
            .get_domain_stats(EmptyRequest {})
            .await
            .unwrap()
            .into_inner();
        let stats: Value = serde_json::from_str(&stats.domain_stats).unwrap_or_default();
        stats["Load"]["Load1mSet"] == true && stats["Load"]["Load1m"] == 0.25
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_are_notified_and_repetitions_are_not() {
    let agent = ScriptedAgent::recorded();
    let launcher = launcher_with_agent(&agent).await;
    wait_for("the last poll", async || agent.count("guest-get-load") > 0).await;
    let first = launcher.notifications_until("freeze=thawed").await;
    let mut os_reports: Vec<&String> = first.iter().filter(|line| line.contains("os=")).collect();
    let count = os_reports.len();
    // On a slow machine the agent's answers are notified in two groups.
    os_reports.dedup();
    assert_eq!(
        os_reports.len(),
        count,
        "each notification reports a change: {first:#?}"
    );
    assert!(
        first
            .last()
            .unwrap()
            .contains("ip=fec0::ff:fe00:1 freeze=thawed"),
        "{first:#?}"
    );
    // The agent connects again, and its answers are unchanged.
    let before = agent.count("guest-get-osinfo");
    tokio::time::sleep(Duration::from_millis(1100)).await;
    agent.connect(&launcher);
    wait_for("the second session", async || {
        agent.count("guest-get-osinfo") > before
    })
    .await;
    let second = launcher.notifications(first.len()).await;
    assert_eq!(second, first);
    launcher.manager.run(Command::Pause).await.unwrap();
    let paused = launcher.notifications_until("Paused/User").await;
    assert!(
        paused.last().unwrap().contains("os=KV Test Guest"),
        "the agent's information is kept: {paused:#?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn any_number_of_clients_causes_no_further_command() {
    let agent = ScriptedAgent::recorded();
    let launcher = launcher_with_agent(&agent).await;
    wait_for("the last poll", async || agent.count("guest-get-load") > 0).await;
    let (calls, begin) = (launcher.fake.count(Call::Agent), Instant::now());
    let send_queries = async || {
        let mut client = client(&launcher).await;
        for _ in 0..20 {
            client.get_guest_info(EmptyRequest {}).await.unwrap();
            client.get_users(EmptyRequest {}).await.unwrap();
            client.get_filesystems(EmptyRequest {}).await.unwrap();
            client.get_domain(EmptyRequest {}).await.unwrap();
        }
    };
    futures_util::future::join_all((0..20).map(|_| send_queries())).await;
    // The polls go on, at most two a second. The clients have sent 1,600 queries.
    let further_commands = launcher.fake.count(Call::Agent) - calls;
    let polls = 1 + 2 * begin.elapsed().as_secs() as usize;
    assert!(
        further_commands <= polls,
        "{further_commands} further commands"
    );
    assert_eq!(agent.count("guest-info"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_and_large_agent_answers_are_ignored() {
    let agent = ScriptedAgent::recorded();
    let launcher = launcher_with_agent(&agent).await;
    launcher.notifications_until("os=KV Test Guest").await;
    let expected = guest_info(&launcher).await;
    for raw in [
        String::new(),
        "{".into(),
        r#"{"return":"burning"}"#.into(),
        format!(r#"{{"return":"{}"}}"#, "x".repeat(4 << 20)),
        format!(
            r#"{{"return":{}{}}}"#,
            "[".repeat(100_000),
            "]".repeat(100_000)
        ),
        r#"{"return":{"version":7,"name":[],"host-name":{}}}"#.into(),
        "{\"return\":\"\\ud800\"}".into(),
    ] {
        let before = agent.count("guest-get-load");
        agent.answer_raw(raw);
        tokio::time::sleep(Duration::from_millis(1050)).await;
        agent.connect(&launcher);
        wait_for("all polls", async || agent.count("guest-get-load") > before).await;
    }
    assert_eq!(guest_info(&launcher).await["os"], expected["os"]);
    assert_eq!(guest_info(&launcher).await["fsFreezeStatus"], "thawed");
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
