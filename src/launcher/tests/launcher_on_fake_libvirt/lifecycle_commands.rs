//! Commands from the start of a VM to its deletion, repeated and concurrent ones, and the notifications that follow.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use kubevirt_api::vmi::Vmi;
use libvirt::fake::{Call, FakeDaemon};
use libvirt::{DomainState, code, origin};
use proto::cmd::v1::EmptyRequest;
use serde_json::json;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;
use virt_launcher::manager::{Command, CommandSuccess};

use crate::support::command_client::client;
use crate::support::test_launcher::{
    DOMAIN, TestLauncher, count_containing, domain_state, launcher_with_running_vm, vmi_json,
};

#[tokio::test(flavor = "multi_thread")]
async fn notifications_from_start_to_delete() {
    let launcher = TestLauncher::new().await;
    launcher.sync_vm().await.unwrap();
    let notifications = launcher.notifications_until("Running").await;
    assert_eq!(notifications[0], "ADDED uid= Shutoff/Unknown");
    assert_eq!(count_containing(&notifications, "ADDED"), 1);
    assert!(
        notifications.contains(&"MODIFIED uid=1234 Running/Unknown grace=5".to_owned()),
        "{notifications:#?}"
    );
    launcher.manager.run(Command::Pause).await.unwrap();
    let notifications = launcher.notifications_until("Paused/User").await;
    assert_eq!(
        count_containing(&notifications, "Paused/User"),
        1,
        "a plain pause is notified once: {notifications:#?}"
    );
    launcher.manager.run(Command::Unpause).await.unwrap();
    launcher.fake.obey_shutdown(false);
    launcher.manager.run(Command::Shutdown).await.unwrap();
    launcher
        .notifications_until("Running/Unknown grace=5 deleting")
        .await;
    launcher.manager.run(Command::Kill).await.unwrap();
    launcher.notifications_until("Shutoff/Destroyed").await;
    launcher.manager.run(Command::Delete).await.unwrap();
    let notifications = launcher.notifications_until("NonExistent").await;
    assert_eq!(
        notifications.last().unwrap(),
        "MODIFIED uid=1234 NoState/NonExistent gone"
    );
    assert_eq!(count_containing(&notifications, "DELETED"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_state_is_notified_once() {
    let launcher = TestLauncher::new().await;
    launcher.sync_vm().await.unwrap();
    launcher.notifications_until("Running").await;
    launcher.manager.run(Command::Kill).await.unwrap();
    launcher.notifications_until("Shutoff/Destroyed").await;
    launcher.manager.run(Command::Delete).await.unwrap();
    let notifications = launcher.notifications_until("NonExistent").await;
    let repeated = notifications.windows(2).find(|pair| pair[0] == pair[1]);
    assert_eq!(repeated, None, "{notifications:#?}");
    assert_eq!(count_containing(&notifications, "NonExistent"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn alerts_are_sent_as_kubernetes_events() {
    let launcher = TestLauncher::new().await;
    launcher.sync_vm().await.unwrap();
    launcher.fake.io_error(DOMAIN, "ua-data");
    let notifications = launcher.notifications_until("EVENT").await;
    let full = "EVENT IOerror: VM Paused due to not enough space on volume: data";
    assert_eq!(
        count_containing(&notifications, full),
        1,
        "{notifications:#?}"
    );
    std::fs::create_dir_all(&launcher.paths.qemu_logs).unwrap();
    let log = "2026-11-21 16:30:49.506+0000: panic pvpanic-like: \n";
    std::fs::write(launcher.paths.qemu_log(DOMAIN), log).unwrap();
    launcher.fake.panic_guest(DOMAIN);
    let notifications = launcher.notifications_until("GuestPanicked").await;
    let panicked = "EVENT GuestPanicked: GuestPanicked: type=pvpanic-like";
    assert_eq!(
        count_containing(&notifications, panicked),
        1,
        "{notifications:#?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn guest_time_is_set_after_a_pause() {
    let launcher = TestLauncher::new().await;
    launcher.sync_vm().await.unwrap();
    let (sender, mut commands) = tokio::sync::mpsc::unbounded_channel();
    let agent = move |json: &str| {
        if json.contains("guest-set-time") {
            let _ = sender.send(json.to_owned());
        }
        Ok("{}".to_owned())
    };
    launcher.fake.set_agent(DOMAIN, Some(Arc::new(agent)));
    launcher.manager.run(Command::Pause).await.unwrap();
    launcher.manager.run(Command::Unpause).await.unwrap();
    let command = tokio::time::timeout(Duration::from_secs(20), commands.recv());
    let command = command.await.unwrap().unwrap();
    assert!(command.contains("guest-set-time"), "{command}");
}

#[tokio::test(flavor = "multi_thread")]
async fn repeated_commands_do_nothing() {
    let launcher = TestLauncher::new().await;
    launcher.manager.run(Command::Kill).await.unwrap();
    launcher.manager.run(Command::Delete).await.unwrap();
    for _ in 0..2 {
        launcher.sync_vm().await.unwrap();
    }
    assert_eq!(launcher.fake.count(Call::Start), 1);
    for _ in 0..2 {
        launcher.manager.run(Command::Pause).await.unwrap();
    }
    assert_eq!(launcher.fake.count(Call::Suspend), 1);
    launcher.sync_vm().await.unwrap();
    assert_eq!(
        domain_state(&launcher),
        Some(DomainState::Paused),
        "a sync does not undo a user's pause"
    );
    for _ in 0..2 {
        launcher.manager.run(Command::Unpause).await.unwrap();
    }
    assert_eq!(launcher.fake.count(Call::Resume), 1);
    for _ in 0..2 {
        launcher.manager.run(Command::Kill).await.unwrap();
    }
    for _ in 0..2 {
        launcher.manager.run(Command::Delete).await.unwrap();
    }
    assert_eq!(domain_state(&launcher), None);
}

/// A VMI whose status says that its agent is connected.
fn vmi_with_agent(acpi: bool) -> Box<Vmi> {
    let mut vmi = vmi_json();
    vmi["status"]["conditions"] = json!([{"type": "AgentConnected", "status": "True"}]);
    vmi["spec"]["domain"]["features"] = json!({"acpi": {"enabled": acpi}});
    Box::new(Vmi::from_json(vmi.to_string().as_bytes()).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn soft_reboot_presses_the_power_button_of_a_guest_whose_agent_is_silent() {
    let launcher = TestLauncher::new().await;
    launcher.sync_vm().await.unwrap();
    let without_button = Command::SoftReboot(vmi_with_agent(false));
    launcher.manager.run(without_button).await.unwrap_err();
    assert_eq!(launcher.fake.count(Call::Reboot), 0);
    let with_button = Command::SoftReboot(vmi_with_agent(true));
    let answer = launcher.manager.run(with_button).await.unwrap();
    assert_eq!(answer, CommandSuccess::Changed);
    assert_eq!(launcher.fake.count(Call::Agent), 2, "one ping per command");
    assert_eq!(launcher.fake.count(Call::Reboot), 1, "the power button");
}

#[tokio::test(flavor = "multi_thread")]
async fn end_of_a_transient_domain_is_published_before_its_deletion() {
    let launcher = TestLauncher::new().await;
    launcher.sync_vm().await.unwrap();
    launcher.notifications_until("Running").await;
    launcher.manager.run(Command::Delete).await.unwrap();
    launcher.fake.power_off(DOMAIN);
    let notifications = launcher.notifications_until("NonExistent").await;
    let last = &notifications[notifications.len() - 2..];
    assert!(last[0].contains("Shutoff/Shutdown"), "{notifications:#?}");
    assert!(
        last[1].contains("NoState/NonExistent gone"),
        "{notifications:#?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn late_pause_is_not_undone_by_a_sync() {
    let launcher = TestLauncher::new().await;
    launcher.sync_vm().await.unwrap();
    let error = FakeDaemon::error(
        code::SYSTEM_ERROR,
        origin::RPC,
        "cannot recv data: Connection reset by peer",
    );
    launcher.fake.fail_next(Call::Suspend, error);
    launcher.manager.run(Command::Pause).await.unwrap_err();
    let domain = launcher
        .fake
        .connect()
        .unwrap()
        .lookup(DOMAIN)
        .unwrap()
        .unwrap();
    domain.suspend().unwrap();
    launcher.sync_vm().await.unwrap();
    assert_eq!(domain_state(&launcher), Some(DomainState::Paused));
}

#[tokio::test(flavor = "multi_thread")]
async fn unpause_of_a_running_vm_revokes_a_pause_without_an_answer() {
    let launcher = TestLauncher::new().await;
    launcher.sync_vm().await.unwrap();
    let error = FakeDaemon::error(
        code::SYSTEM_ERROR,
        origin::RPC,
        "Cannot recv data: Input/output error",
    );
    launcher.fake.fail_next(Call::Suspend, error);
    launcher.manager.run(Command::Pause).await.unwrap_err();
    let unpaused = launcher.manager.run(Command::Unpause).await.unwrap();
    assert_eq!(unpaused, CommandSuccess::Unchanged);
    launcher.fake.io_error(DOMAIN, "ua-disk0");
    launcher.sync_vm().await.unwrap();
    assert_eq!(domain_state(&launcher), Some(DomainState::Running));
}

#[tokio::test(flavor = "multi_thread")]
async fn shutdown_resumes_a_paused_vm_first() {
    let launcher = TestLauncher::new().await;
    launcher.sync_vm().await.unwrap();
    launcher.manager.run(Command::Pause).await.unwrap();
    launcher.manager.run(Command::Shutdown).await.unwrap();
    launcher.notifications_until("Shutoff/Shutdown").await;
    let repeated = launcher.manager.run(Command::Shutdown).await.unwrap();
    assert_eq!(repeated, CommandSuccess::Unchanged);
}

#[tokio::test(flavor = "multi_thread")]
async fn command_socket_is_made_again_after_its_directory_was_removed() {
    let launcher = TestLauncher::new().await;
    let mut earlier = client(&launcher).await;
    earlier.ping(EmptyRequest {}).await.unwrap();
    let socket = launcher.paths.ready_socket();
    std::fs::remove_dir_all(socket.parent().unwrap()).unwrap();
    let made_again = async {
        while !socket.exists() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let made_again = tokio::time::timeout(Duration::from_secs(60), made_again).await;
    made_again.expect("the socket is made again");
    let mut later = client(&launcher).await;
    later.ping(EmptyRequest {}).await.unwrap();
    earlier.ping(EmptyRequest {}).await.unwrap();
}

/// The places in the source whose lines are logged at info level or above.
#[derive(Clone, Default)]
struct LoggedPlaces(Arc<Mutex<Vec<String>>>);

impl LoggedPlaces {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl<S: Subscriber> Layer<S> for LoggedPlaces {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if *event.metadata().level() <= Level::INFO {
            let place = event.metadata().name().to_owned();
            self.0.lock().unwrap().push(place);
        }
    }
}

/// virt-handler repeats it every few seconds, for as long as the VM runs. The launcher's tasks run on this thread, whose
/// lines are recorded.
#[tokio::test]
async fn sync_without_changes_logs_nothing_at_info_level() {
    let launcher = launcher_with_running_vm().await;
    let logged = LoggedPlaces::default();
    // With a single subscriber, a line that another test's thread logs first is disabled for all threads.
    let _second = tracing::Dispatch::new(tracing_subscriber::registry());
    let _recorded = tracing_subscriber::registry()
        .with(logged.clone())
        .set_default();
    for _ in 0..3 {
        launcher.sync_vm().await.unwrap();
    }
    assert_eq!(logged.take(), [] as [String; 0]);
    launcher.manager.run(Command::Pause).await.unwrap();
    assert!(!logged.take().is_empty(), "lines are recorded");
}
