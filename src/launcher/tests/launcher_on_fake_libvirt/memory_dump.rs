//! VirtualMachineMemoryDump: the response, and the notifications about the dump.

use std::path::Path;
use std::time::Duration;

use libvirt::fake::Call;
use proto::cmd::v1::{EmptyRequest, MemoryDumpRequest, Response};

use crate::support::command_client::{client, vmi_message, vmi_request};
use crate::support::test_launcher::{DOMAIN, TestLauncher, vmi_json};

/// Requests a memory dump.
async fn dump(launcher: &TestLauncher, path: &str) -> Response {
    let request = MemoryDumpRequest {
        vmi: vmi_message(&vmi_json()),
        dump_path: path.to_owned(),
    };
    let answer = client(launcher)
        .await
        .virtual_machine_memory_dump(request)
        .await;
    answer.unwrap().into_inner()
}

fn path(directory: &tempfile::TempDir, name: &str) -> String {
    directory.path().join(name).to_str().unwrap().to_owned()
}

/// The notifications about the memory dump, without `MODIFIED`, the VM's UID and repetitions.
fn dump_notifications(notifications: &[String]) -> Vec<&str> {
    let mut records: Vec<&str> = notifications
        .iter()
        .filter_map(|line| line.strip_prefix("MODIFIED uid=1234 "))
        .filter(|line| line.contains("dump="))
        .collect();
    records.dedup();
    records
}

#[tokio::test(flavor = "multi_thread")]
async fn dump_is_answered_at_once_and_published_in_order() {
    let launcher = TestLauncher::new().await;
    let directory = tempfile::tempdir().unwrap();
    launcher.sync_vm().await.unwrap();
    launcher.fake.set_dump_duration(Duration::from_millis(300));
    let first = path(&directory, "a.memory.dump");
    assert!(dump(&launcher, &first).await.success);
    launcher.notifications_until("Paused/Dump").await;
    assert!(dump(&launcher, &first).await.success);
    let other = dump(&launcher, &path(&directory, "b.memory.dump")).await;
    assert!(!other.success, "it would never be made");
    assert!(other.message.contains("is in progress"), "{other:?}");
    // Neither queries nor commands wait for the dump.
    let mut client = client(&launcher).await;
    let domain = client.get_domain(EmptyRequest {}).await.unwrap();
    assert!(domain.into_inner().domain.contains("Dump"));
    launcher.sync_vm().await.unwrap();
    let notifications = launcher.notifications_until("dump=completed").await;
    let records = dump_notifications(&notifications);
    assert_eq!(
        records.first(),
        Some(&"Running/Unknown grace=5 dump=begun"),
        "{records:?}"
    );
    assert_eq!(
        records.get(1),
        Some(&"Paused/Dump grace=5 dump=begun"),
        "{records:?}"
    );
    assert_eq!(
        records.last(),
        Some(&"Running/Unknown grace=5 dump=completed"),
        "{records:?}"
    );
    assert_eq!(launcher.fake.count(Call::CoreDump), 1);
    assert_eq!(
        launcher.fake.count(Call::Resume),
        0,
        "the sync does not resume the guest"
    );
    assert!(Path::new(&first).exists());
    assert!(dump(&launcher, &first).await.success);
    assert_eq!(
        launcher.notifications(0).await,
        notifications,
        "a repeated request is not notified"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_dump_path_is_refused_and_a_missing_directory_fails_the_dump() {
    let launcher = TestLauncher::new().await;
    launcher.sync_vm().await.unwrap();
    for invalid_path in [
        "",
        "x.memory.dump",
        "/a/../b.memory.dump",
        &"/x".repeat(9000),
    ] {
        let answer = dump(&launcher, invalid_path).await;
        assert!(
            !answer.success && answer.message.contains("memory dump"),
            "{answer:?}"
        );
    }
    let without_vmi = MemoryDumpRequest::default();
    let answer = client(&launcher)
        .await
        .virtual_machine_memory_dump(without_vmi)
        .await;
    assert!(
        answer
            .unwrap()
            .into_inner()
            .message
            .contains("No valid vmi")
    );
    assert!(dump(&launcher, "/nonexistent/x.memory.dump").await.success);
    let notifications = launcher.notifications_until("dump=failed").await;
    let expected = ["begun", "failed"].map(|how| format!("Running/Unknown grace=5 dump={how}"));
    assert_eq!(dump_notifications(&notifications), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn kill_ends_the_dump_and_publishes_it_before_the_end() {
    let launcher = TestLauncher::new().await;
    let directory = tempfile::tempdir().unwrap();
    launcher.sync_vm().await.unwrap();
    launcher.fake.set_dump_duration(Duration::from_secs(600));
    let file = path(&directory, "a.memory.dump");
    assert!(dump(&launcher, &file).await.success);
    launcher.notifications_until("Paused/Dump").await;
    let mut client = client(&launcher).await;
    assert!(
        client
            .kill_virtual_machine(vmi_request())
            .await
            .unwrap()
            .into_inner()
            .success
    );
    assert!(
        client
            .delete_virtual_machine(vmi_request())
            .await
            .unwrap()
            .into_inner()
            .success
    );
    let notifications = launcher.notifications_until("gone").await;
    let records = dump_notifications(&notifications);
    assert!(
        records.contains(&"Shutoff/Destroyed grace=5 dump=failed"),
        "{records:?}"
    );
    assert!(
        notifications.last().unwrap().contains("gone"),
        "{notifications:?}"
    );
    assert!(launcher.fake.state(DOMAIN).is_none() && !Path::new(&file).exists());
}
