//! The guest agent of a paused guest: it is not polled, and the probe succeeds.

use std::time::Duration;

use libvirt::fake::{Call, FakeDaemon};
use libvirt::{code, origin};
use proto::cmd::v1::GuestPingRequest;
use virt_launcher::manager::Command;

use crate::support::command_client::client;
use crate::support::scripted_guest_agent::{ScriptedAgent, launcher_with_agent};
use crate::support::test_launcher::{DOMAIN, wait_for};

#[tokio::test(flavor = "multi_thread")]
async fn paused_guest_is_not_polled() {
    let agent = ScriptedAgent::recorded();
    let launcher = launcher_with_agent(&agent).await;
    wait_for("the last poll", async || agent.count("guest-get-load") > 0).await;
    launcher.manager.run(Command::Pause).await.unwrap();
    launcher.notifications_until("Paused/User").await;
    let before = launcher.fake.count(Call::Agent);
    tokio::time::sleep(Duration::from_millis(5500)).await;
    assert_eq!(
        launcher.fake.count(Call::Agent),
        before,
        "not even the freeze status, which was due"
    );
    launcher.manager.run(Command::Unpause).await.unwrap();
    wait_for("all polls", async || agent.count("guest-get-load") > 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ping_of_a_paused_guest_succeeds() {
    let agent = ScriptedAgent::recorded();
    let launcher = launcher_with_agent(&agent).await;
    wait_for("the last poll", async || agent.count("guest-get-load") > 0).await;
    launcher.manager.run(Command::Pause).await.unwrap();
    let ping = || GuestPingRequest {
        domain_name: DOMAIN.into(),
        timeout_seconds: 1,
    };
    // libvirt's error for an agent command while the domain is paused.
    let error = FakeDaemon::error(
        code::OPERATION_INVALID,
        origin::QEMU,
        "domain is not running",
    );
    agent.fail("guest-ping", Some(error));
    let mut client = client(&launcher).await;
    let answer = client.guest_ping(ping()).await.unwrap().into_inner();
    assert!(answer.response.unwrap().success);
    launcher.manager.run(Command::Unpause).await.unwrap();
    assert!(
        client.guest_ping(ping()).await.is_err(),
        "the error counts for a running guest"
    );
}
