//! When virt-handler is told that the domain is gone.

use domain::kubevirt_version::KubeVirtVersion;
use libvirt::fake::{Call, FakeDaemon};
use libvirt::{Detail, Event, LifecycleEvent};

use crate::support::test_launcher::{
    DOMAIN, TestLauncher, count_containing, launcher_of_version_with_running_vm, wait_for,
};

/// The observer asks with its handle of the domain, then with a new one.
const WITH_HANDLE: usize = 2;
/// The observer has dropped its handle.
const WITHOUT_HANDLE: usize = 1;

/// Publishes an event of a domain that libvirt does not find any more when the event is handled, which takes the
/// observer this number of questions.
async fn publish_late(
    launcher: &TestLauncher,
    event: LifecycleEvent,
    detail: Detail,
    questions: usize,
) {
    for _ in 0..questions {
        let gone = FakeDaemon::error(libvirt::code::NO_DOMAIN, libvirt::origin::QEMU, "gone");
        launcher.fake.fail_next(Call::State, gone);
    }
    let reads = launcher.fake.count(Call::State);
    launcher.fake.publish(&Event::Lifecycle {
        domain: DOMAIN.into(),
        event,
        detail,
    });
    wait_for("the observer to read the domain", async || {
        launcher.fake.count(Call::State) >= reads + questions
    })
    .await;
}

/// The events of a migrated source: which of them, handled late, tells the deletion.
#[tokio::test(flavor = "multi_thread")]
async fn a_migrated_domain_is_gone_with_its_last_event_from_v1_10_on() {
    for (version, gone_when_stopped) in [
        (KubeVirtVersion::V1_8, true),
        (KubeVirtVersion::V1_9, true),
        (KubeVirtVersion::V1_10, false),
    ] {
        let launcher = launcher_of_version_with_running_vm(version).await;
        publish_late(
            &launcher,
            LifecycleEvent::Stopped,
            Detail::Migrated,
            WITH_HANDLE,
        )
        .await;
        let stopped = launcher.notifications_until("Shutoff/").await;
        assert_eq!(
            count_containing(&stopped, "gone"),
            usize::from(gone_when_stopped),
            "{version}: {stopped:#?}"
        );
        publish_late(
            &launcher,
            LifecycleEvent::Undefined,
            Detail::Removed,
            WITHOUT_HANDLE,
        )
        .await;
        let undefined = launcher.notifications_until("gone").await;
        assert_eq!(count_containing(&undefined, "gone"), 1, "{undefined:#?}");
    }
}

/// A transient domain, as it is on the target of a migration that fails, has no later event.
#[tokio::test(flavor = "multi_thread")]
async fn a_domain_that_stops_for_another_reason_is_gone_at_once() {
    for version in KubeVirtVersion::ALL {
        let launcher = launcher_of_version_with_running_vm(version).await;
        publish_late(
            &launcher,
            LifecycleEvent::Stopped,
            Detail::Destroyed,
            WITH_HANDLE,
        )
        .await;
        let stopped = launcher.notifications_until("gone").await;
        assert_eq!(count_containing(&stopped, "gone"), 1, "{stopped:#?}");
    }
}
