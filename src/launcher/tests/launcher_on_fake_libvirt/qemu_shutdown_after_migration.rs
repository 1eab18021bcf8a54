//! Whether the end of QEMU after a switchover is notified as a shutdown of the guest.

use libvirt::fake::Call;
use libvirt::{CloseReason, Detail, Event, LifecycleEvent};

use crate::support::test_launcher::{DOMAIN, TestLauncher, launcher_with_running_vm, wait_for};

#[tokio::test(flavor = "multi_thread")]
async fn end_of_a_migrated_guests_qemu_is_not_notified_as_shutdown() {
    for has_left in [false, true] {
        let launcher = launcher_with_running_vm().await;
        if has_left {
            publish_switchover(&launcher).await;
        }
        let reads = launcher.fake.count(Call::Xml);
        launcher.fake.begin_qemu_shutdown(DOMAIN);
        match has_left {
            false => drop(launcher.notifications_until("ShuttingDown").await),
            // The observer reads the XML after the state.
            true => wait_for_read(&launcher, reads).await,
        }
        launcher.fake.kill_qemu(DOMAIN);
        let notifications = launcher.notifications_until("Shutoff/Crashed").await;
        let is_notified = notifications
            .iter()
            .any(|line| line.contains("ShuttingDown"));
        assert_eq!(is_notified, !has_left, "{notifications:#?}");
    }
}

/// Publishes libvirt's event of the switchover to the target.
async fn publish_switchover(launcher: &TestLauncher) {
    let reads = launcher.fake.count(Call::Xml);
    launcher.fake.publish(&Event::Lifecycle {
        domain: DOMAIN.into(),
        event: LifecycleEvent::Suspended,
        detail: Detail::Migrated,
    });
    wait_for_read(launcher, reads).await;
}

/// Waits until the observer reads the domain again, which it has read `reads` times.
async fn wait_for_read(launcher: &TestLauncher, reads: usize) {
    wait_for("the observer to read the domain", async || {
        launcher.fake.count(Call::Xml) > reads
    })
    .await;
}

/// The daemon dies before it sends the event that the guest continues here.
#[tokio::test(flavor = "multi_thread")]
async fn end_of_a_returned_guests_qemu_is_notified_as_shutdown() {
    let launcher = launcher_with_running_vm().await;
    publish_switchover(&launcher).await;
    let reads = launcher.fake.count(Call::Xml);
    launcher.fake.stop_daemon(CloseReason::Eof);
    launcher.fake.start_daemon();
    wait_for_read(&launcher, reads).await;
    launcher.fake.begin_qemu_shutdown(DOMAIN);
    launcher.notifications_until("ShuttingDown").await;
}
