//! The safety thaw: a frozen guest is thawed after the timeout of its freeze.

use std::time::Duration;

use libvirt::fake::{Call, FakeDaemon};
use libvirt::{code, origin};

use crate::support::command_client::{freeze, guest_info, unfreeze};
use crate::support::scripted_guest_agent::launcher_with_recorded_agent;
use crate::support::test_launcher::wait_for;

#[tokio::test(flavor = "multi_thread")]
async fn frozen_guest_is_thawed_after_its_time() {
    let (launcher, agent) = launcher_with_recorded_agent().await;
    assert!(freeze(&launcher, 1).await.success);
    // The first two attempts fail: the daemon has ended, then the agent reports an error.
    for (error_code, message) in [
        (
            code::INTERNAL_ERROR,
            "internal error: client socket is closed",
        ),
        (
            code::AGENT_COMMAND_FAILED,
            "guest agent command failed: busy",
        ),
    ] {
        launcher.fake.fail_next(
            Call::Agent,
            FakeDaemon::error(error_code, origin::QEMU, message),
        );
    }
    wait_for("the safety thaw", async || {
        agent.count("guest-fsfreeze-thaw") > 0
    })
    .await;
    launcher.notifications_until("freeze=thawed").await;
    assert_eq!(guest_info(&launcher).await["fsFreezeStatus"], "thawed");
}

#[tokio::test(flavor = "multi_thread")]
async fn safety_thaw_survives_a_restart_of_the_daemon() {
    let (launcher, agent) = launcher_with_recorded_agent().await;
    assert!(freeze(&launcher, 1).await.success);
    launcher.fake.stop_daemon(libvirt::CloseReason::Eof);
    tokio::time::sleep(Duration::from_millis(2500)).await;
    assert_eq!(agent.count("guest-fsfreeze-thaw"), 0);
    launcher.fake.start_daemon();
    wait_for("the safety thaw", async || {
        agent.count("guest-fsfreeze-thaw") > 0
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unfreeze_and_an_unlimited_freeze_end_the_safety_thaw() {
    let (launcher, agent) = launcher_with_recorded_agent().await;
    assert!(freeze(&launcher, 1).await.success);
    assert!(unfreeze(&launcher).await.success);
    assert!(freeze(&launcher, 0).await.success);
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert_eq!(guest_info(&launcher).await["fsFreezeStatus"], "frozen");
    assert_eq!(agent.count("guest-fsfreeze-thaw"), 1);
}
