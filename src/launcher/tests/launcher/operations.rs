//! Operations, and the notifications that follow.

use std::sync::Arc;
use std::time::Duration;

use domain_xml::{Change, ChangeKind};
use hook_host::{FailurePolicy, HookIdentity, HookPoint, Outcome, Run};
use kubevirt_api::vmi::Vmi;
use libvirt::fake::{Call, FakeDaemon};
use libvirt::{BlockInfo, CloseReason, DomainState, XmlKind};
use serde_json::json;
use virt_launcher::manager::{Answer, Command, OpError, SyncRequest};

use crate::fake_libvirt_rig::{DOMAIN, Rig, ScriptedHooks, sync, sync_of, vmi_json};

fn state(rig: &Rig) -> Option<DomainState> {
    rig.fake.state(DOMAIN).map(|state| state.state)
}

fn count(notifications: &[String], text: &str) -> usize {
    notifications
        .iter()
        .filter(|line| line.contains(text))
        .count()
}

#[tokio::test(flavor = "multi_thread")]
async fn notifications_of_a_whole_life() {
    let rig = Rig::new().await;
    rig.manager.run(Command::sync(sync())).await.unwrap();
    let notifications = rig.notifications_until("Running").await;
    assert_eq!(notifications[0], "ADDED uid= Shutoff/Unknown");
    assert_eq!(count(&notifications, "ADDED"), 1);
    assert!(
        notifications.contains(&"MODIFIED uid=1234 Running/Unknown grace=5".to_owned()),
        "{notifications:#?}"
    );
    rig.manager.run(Command::Pause).await.unwrap();
    let notifications = rig.notifications_until("Paused/User").await;
    assert_eq!(
        count(&notifications, "Paused/User"),
        1,
        "a plain pause is told once: {notifications:#?}"
    );
    rig.manager.run(Command::Unpause).await.unwrap();
    rig.fake.obey_shutdown(false);
    rig.manager.run(Command::Shutdown).await.unwrap();
    rig.notifications_until("Running/Unknown grace=5 deleting")
        .await;
    rig.manager.run(Command::Kill).await.unwrap();
    rig.notifications_until("Shutoff/Destroyed").await;
    rig.manager.run(Command::Delete).await.unwrap();
    let notifications = rig.notifications_until("NonExistent").await;
    assert_eq!(
        notifications.last().unwrap(),
        "MODIFIED uid=1234 NoState/NonExistent gone"
    );
    assert_eq!(count(&notifications, "DELETED"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn alerts_are_sent_as_kubernetes_events() {
    let rig = Rig::new().await;
    rig.manager.run(Command::sync(sync())).await.unwrap();
    rig.fake.io_error(DOMAIN, "ua-data");
    let notifications = rig.notifications_until("EVENT").await;
    let full = "EVENT IOerror: VM Paused due to not enough space on volume: data";
    assert_eq!(count(&notifications, full), 1, "{notifications:#?}");
    std::fs::create_dir_all(&rig.paths.qemu_logs).unwrap();
    let log = "2026-11-21 16:30:49.506+0000: panic pvpanic-like: \n";
    std::fs::write(rig.paths.qemu_log(DOMAIN), log).unwrap();
    rig.fake.panic_guest(DOMAIN);
    let notifications = rig.notifications_until("GuestPanicked").await;
    let panicked = "EVENT GuestPanicked: GuestPanicked: type=pvpanic-like";
    assert_eq!(count(&notifications, panicked), 1, "{notifications:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn disk_error_during_a_restart_of_the_daemon_is_an_alert() {
    let rig = Rig::new().await;
    rig.manager.run(Command::sync(sync())).await.unwrap();
    rig.notifications_until("Running").await;
    rig.fake.stop_daemon(CloseReason::Eof);
    rig.fake.io_error(DOMAIN, "ua-data");
    rig.fake
        .set_disk_error(DOMAIN, "vda", libvirt::DiskError::NoSpace);
    rig.fake.start_daemon();
    let notifications = rig.notifications_until("EVENT").await;
    let full = "EVENT IOerror: VM Paused due to not enough space on volume: vda";
    assert_eq!(count(&notifications, full), 1, "{notifications:#?}");
    rig.fake.stop_daemon(CloseReason::Eof);
    rig.fake.start_daemon();
    let notifications = rig.notifications(notifications.len() + 1).await;
    assert_eq!(count(&notifications, full), 1, "{notifications:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn guest_time_is_set_after_a_pause() {
    let rig = Rig::new().await;
    rig.manager.run(Command::sync(sync())).await.unwrap();
    let (sender, mut commands) = tokio::sync::mpsc::unbounded_channel();
    let agent = move |json: &str| {
        if json.contains("guest-set-time") {
            let _ = sender.send(json.to_owned());
        }
        Ok("{}".to_owned())
    };
    rig.fake.set_agent(DOMAIN, Some(Arc::new(agent)));
    rig.manager.run(Command::Pause).await.unwrap();
    rig.manager.run(Command::Unpause).await.unwrap();
    let command = tokio::time::timeout(Duration::from_secs(20), commands.recv());
    let command = command.await.unwrap().unwrap();
    assert!(command.contains("guest-set-time"), "{command}");
}

/// A VMI with placeholder interfaces, which need a second definition.
fn with_placeholder_interfaces() -> SyncRequest {
    let mut vmi = vmi_json();
    vmi["metadata"]["annotations"] = json!({"kubevirt.io/pci-interface-slot-count": "3"});
    sync_of(Vmi::from_json(vmi.to_string().as_bytes()).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn definition_in_two_steps_is_published_once() {
    let rig = Rig::new().await;
    rig.manager
        .run(Command::sync(with_placeholder_interfaces()))
        .await
        .unwrap();
    assert_eq!(rig.fake.count(Call::Define), 2);
    let notifications = rig.notifications_until("Running").await;
    assert_eq!(count(&notifications, "ADDED"), 1, "{notifications:#?}");
    assert_eq!(count(&notifications, "Shutoff"), 2, "{notifications:#?}");
    let domain = rig.fake.connect().unwrap().lookup(DOMAIN).unwrap().unwrap();
    let xml = domain.xml(XmlKind::Inactive).unwrap();
    assert!(!xml.contains("placeholder"), "{xml}");
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_definition_leaves_no_domain() {
    let rig = Rig::new().await;
    let failure = FakeDaemon::error(38, 10, "the daemon is out of breath");
    rig.fake.fail_next(Call::Xml, failure);
    let error = rig
        .manager
        .run(Command::sync(with_placeholder_interfaces()))
        .await
        .unwrap_err();
    assert!(error.message().contains("out of breath"), "{error}");
    assert_eq!(state(&rig), None);
    rig.manager
        .run(Command::sync(with_placeholder_interfaces()))
        .await
        .unwrap();
    let notifications = rig.notifications_until("Running").await;
    assert_eq!(
        count(&notifications, "NonExistent"),
        0,
        "{notifications:#?}"
    );
    assert_eq!(count(&notifications, "ADDED"), 1, "{notifications:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_domain_names_the_hook_that_changed_it() {
    let rig = Rig::new().await;
    let refusal = FakeDaemon::error(27, 20, "XML error: unknown video model 'rainbow'");
    rig.fake.fail_next(Call::Define, refusal);
    let error = rig.manager.run(Command::sync(sync())).await.unwrap_err();
    assert_eq!(
        error.message(),
        "LibvirtError(Code=27, Domain=20, Message='XML error: unknown video model 'rainbow'') \
         (hook painter changed /domain/devices/video)"
    );
    rig.manager.run(Command::sync(sync())).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn repeated_commands_do_nothing() {
    let rig = Rig::new().await;
    rig.manager.run(Command::Kill).await.unwrap();
    rig.manager.run(Command::Delete).await.unwrap();
    for _ in 0..2 {
        rig.manager.run(Command::sync(sync())).await.unwrap();
    }
    assert_eq!(rig.fake.count(Call::Start), 1);
    for _ in 0..2 {
        rig.manager.run(Command::Pause).await.unwrap();
    }
    assert_eq!(rig.fake.count(Call::Suspend), 1);
    rig.manager.run(Command::sync(sync())).await.unwrap();
    assert_eq!(
        state(&rig),
        Some(DomainState::Paused),
        "a sync does not undo a user's pause"
    );
    for _ in 0..2 {
        rig.manager.run(Command::Unpause).await.unwrap();
    }
    assert_eq!(rig.fake.count(Call::Resume), 1);
    for _ in 0..2 {
        rig.manager.run(Command::Kill).await.unwrap();
    }
    for _ in 0..2 {
        rig.manager.run(Command::Delete).await.unwrap();
    }
    assert_eq!(state(&rig), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn abandoned_and_repeated_sync_runs_once() {
    let hooks = Arc::new(ScriptedHooks::default());
    let rig = Rig::with(hooks.clone()).await;
    rig.fake.delay(Call::Start, Duration::from_millis(300));
    let impatient = tokio::time::timeout(
        Duration::from_millis(50),
        rig.manager.run(Command::sync(sync())),
    );
    assert!(impatient.await.is_err());
    let (second, third) = tokio::join!(
        rig.manager.run(Command::sync(sync())),
        rig.manager.run(Command::sync(sync()))
    );
    second.unwrap();
    third.unwrap();
    assert_eq!(
        (rig.fake.count(Call::Define), rig.fake.count(Call::Start)),
        (1, 1)
    );
    assert_eq!(
        (hooks.count("PreStart"), hooks.count("OnDefineDomain")),
        (1, 1)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn start_is_answered_after_its_notification_was_accepted() {
    let rig = Rig::new().await;
    rig.handler.delay(Duration::from_millis(300));
    rig.manager.run(Command::sync(sync())).await.unwrap();
    let accepted = rig.handler.notifications();
    let alive = |line: &String| line.contains("StartingUp") || line.contains("Running");
    assert!(accepted.iter().any(alive), "{accepted:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn delete_is_denied_until_the_start_is_reported() {
    let rig = Rig::new().await;
    rig.handler.refuse(true);
    let answer = rig.manager.run(Command::sync(sync())).await;
    assert_eq!(
        answer.unwrap(),
        Answer::Done,
        "answered without a virt-handler"
    );
    let error = rig.manager.run(Command::Delete).await.unwrap_err();
    assert!(error.message().contains("just been started"), "{error}");
    assert_eq!(state(&rig), Some(DomainState::Running));
    rig.handler.refuse(false);
    rig.notifications_until("Running").await;
    rig.manager.run(Command::Delete).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn vm_that_has_run_before_is_not_started_and_can_be_deleted() {
    let rig = Rig::new().await;
    let mut vmi = vmi_json();
    vmi["status"]["phase"] = "Running".into();
    let request = sync_of(Vmi::from_json(vmi.to_string().as_bytes()).unwrap());
    let answer = rig.manager.run(Command::sync(request)).await.unwrap();
    assert_eq!(answer, Answer::NothingToDo);
    assert_eq!(rig.fake.count(Call::Start), 0);
    rig.manager.run(Command::Delete).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn kill_fails_when_nobody_knows_whether_the_vm_runs() {
    let rig = Rig::new().await;
    rig.manager.run(Command::sync(sync())).await.unwrap();
    rig.fake.delay(Call::State, Duration::from_secs(3));
    let error = rig.manager.run(Command::Kill).await.unwrap_err();
    assert!(error.message().contains("gave no answer"), "{error}");
    rig.fake.delay(Call::State, Duration::ZERO);
    rig.manager.run(Command::Kill).await.unwrap();
    assert_eq!(state(&rig), Some(DomainState::Shutoff));
}

/// A VMI whose agent was connected when virt-handler read it last.
fn with_agent(acpi: bool) -> Box<Vmi> {
    let mut vmi = vmi_json();
    vmi["status"]["conditions"] = json!([{"type": "AgentConnected", "status": "True"}]);
    vmi["spec"]["domain"]["features"] = json!({"acpi": {"enabled": acpi}});
    Box::new(Vmi::from_json(vmi.to_string().as_bytes()).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn soft_reboot_presses_the_power_button_of_a_guest_whose_agent_is_silent() {
    let rig = Rig::new().await;
    rig.manager.run(Command::sync(sync())).await.unwrap();
    let without_button = Command::SoftReboot(with_agent(false));
    rig.manager.run(without_button).await.unwrap_err();
    assert_eq!(rig.fake.count(Call::Reboot), 0);
    let with_button = Command::SoftReboot(with_agent(true));
    let answer = rig.manager.run(with_button).await.unwrap();
    assert_eq!(answer, Answer::Done);
    assert_eq!(rig.fake.count(Call::Agent), 2, "a ping each");
    assert_eq!(rig.fake.count(Call::Reboot), 1, "the power button");
}

#[tokio::test(flavor = "multi_thread")]
async fn repeated_delete_succeeds_while_the_launcher_exits() {
    let rig = Rig::new().await;
    rig.manager.run(Command::sync(sync())).await.unwrap();
    rig.manager.run(Command::Kill).await.unwrap();
    rig.manager.run(Command::Delete).await.unwrap();
    rig.notifications_until("NonExistent").await;
    rig.manager.close().await;
    let again = rig.manager.run(Command::Delete).await.unwrap();
    assert_eq!(again, Answer::NothingToDo);
    let error = rig.manager.run(Command::Pause).await.unwrap_err();
    assert_eq!(error.message(), "the launcher is exiting");
}

#[tokio::test(flavor = "multi_thread")]
async fn transient_domains_end_is_published_before_it_is_gone() {
    let rig = Rig::new().await;
    rig.manager.run(Command::sync(sync())).await.unwrap();
    rig.notifications_until("Running").await;
    rig.manager.run(Command::Delete).await.unwrap();
    rig.fake.power_off(DOMAIN);
    let notifications = rig.notifications_until("NonExistent").await;
    let last = &notifications[notifications.len() - 2..];
    assert!(last[0].contains("Shutoff/Shutdown"), "{notifications:#?}");
    assert!(
        last[1].contains("NoState/NonExistent gone"),
        "{notifications:#?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn late_pause_is_not_undone_by_a_sync() {
    let rig = Rig::new().await;
    rig.manager.run(Command::sync(sync())).await.unwrap();
    let broken = FakeDaemon::error(38, 7, "cannot recv data: Connection reset by peer");
    rig.fake.fail_next(Call::Suspend, broken);
    rig.manager.run(Command::Pause).await.unwrap_err();
    let domain = rig.fake.connect().unwrap().lookup(DOMAIN).unwrap().unwrap();
    domain.suspend().unwrap();
    rig.manager.run(Command::sync(sync())).await.unwrap();
    assert_eq!(state(&rig), Some(DomainState::Paused));
}

#[tokio::test(flavor = "multi_thread")]
async fn unsent_command_is_repeated_once() {
    let rig = Rig::new().await;
    rig.manager.run(Command::sync(sync())).await.unwrap();
    let unsent = FakeDaemon::error(1, 7, "internal error: client socket is closed");
    rig.fake.fail_next(Call::Suspend, unsent);
    let answer = rig.manager.run(Command::Pause).await.unwrap();
    assert_eq!(answer, Answer::Done);
    assert_eq!(state(&rig), Some(DomainState::Paused));
}

#[tokio::test(flavor = "multi_thread")]
async fn shutdown_resumes_a_paused_vm_first() {
    let rig = Rig::new().await;
    rig.manager.run(Command::sync(sync())).await.unwrap();
    rig.manager.run(Command::Pause).await.unwrap();
    rig.manager.run(Command::Shutdown).await.unwrap();
    rig.notifications_until("Shutoff/Shutdown").await;
    let again = rig.manager.run(Command::Shutdown).await.unwrap();
    assert_eq!(again, Answer::NothingToDo);
}

#[tokio::test(flavor = "multi_thread")]
async fn kill_does_not_wait_for_a_slow_start() {
    let rig = Rig::new().await;
    rig.fake.delay(Call::Start, Duration::from_millis(300));
    let manager = rig.manager.clone();
    let starting = tokio::spawn(async move { manager.run(Command::sync(sync())).await });
    tokio::time::sleep(Duration::from_millis(100)).await;
    let manager = rig.manager.clone();
    let waiting = tokio::spawn(async move { manager.run(Command::Pause).await });
    tokio::time::sleep(Duration::from_millis(20)).await;
    rig.manager.run(Command::Kill).await.unwrap();
    assert!(matches!(state(&rig), None | Some(DomainState::Shutoff)));
    let refused = waiting.await.unwrap().unwrap_err();
    assert_eq!(refused.message(), "the virtual machine is being ended");
    let _ = starting.await.unwrap();
    assert!(
        matches!(state(&rig), None | Some(DomainState::Shutoff)),
        "nothing starts it afterwards"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn kill_interrupts_a_hanging_hook() {
    let hooks = Arc::new(ScriptedHooks {
        hang: true,
        ..ScriptedHooks::default()
    });
    let rig = Rig::with(hooks).await;
    let manager = rig.manager.clone();
    let starting = tokio::spawn(async move { manager.run(Command::sync(sync())).await });
    tokio::time::sleep(Duration::from_millis(50)).await;
    rig.manager.run(Command::Kill).await.unwrap();
    assert!(starting.await.unwrap().unwrap_err().is_refusal());
    assert_eq!(rig.fake.count(Call::Define), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn veto_leaves_no_domain_and_one_event() {
    let hooks = Arc::new(ScriptedHooks::default());
    *hooks.veto.lock().unwrap() = Some("no GPU today".into());
    let rig = Rig::with(hooks.clone()).await;
    for _ in 0..3 {
        let error = rig.manager.run(Command::sync(sync())).await.unwrap_err();
        assert_eq!(
            error.message(),
            "hook policy refuses at PreStart: no GPU today"
        );
    }
    assert_eq!(state(&rig), None);
    assert_eq!(
        hooks.count("PreStart"),
        3,
        "a repeated sync runs the chain again"
    );
    let notifications = rig.notifications(1).await;
    assert_eq!(
        notifications,
        ["EVENT HookDenied: hook policy refuses at PreStart: no GPU today"]
    );
    *hooks.veto.lock().unwrap() = None;
    rig.manager.run(Command::sync(sync())).await.unwrap();
    assert_eq!(state(&rig), Some(DomainState::Running));
}

fn run_at(point: HookPoint) -> Run {
    Run {
        hook: "hook-sidecar-0".into(),
        identity: HookIdentity {
            name: "smbios".into(),
            version: "1.2.0".into(),
            digest: "ab".repeat(32),
        },
        hook_point: point,
        changes: vec![Change::new(
            "/domain/title",
            ChangeKind::Inserted,
            None,
            None,
        )],
        duration: Duration::from_millis(1),
        peak_memory: 0,
        outcome: Outcome::Ok,
        failure_policy: FailurePolicy::Fail,
        log: Vec::new(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn hooks_of_a_boot_are_published_once_after_the_start() {
    let hooks = Arc::new(ScriptedHooks::default());
    *hooks.runs.lock().unwrap() = vec![run_at(HookPoint::OnDefineDomain)];
    let rig = Rig::with(hooks.clone()).await;
    rig.fake
        .fail_next(Call::Define, FakeDaemon::error(38, 10, "not yet"));
    rig.manager.run(Command::sync(sync())).await.unwrap_err();
    rig.fake
        .fail_next(Call::Start, FakeDaemon::error(38, 10, "not yet"));
    rig.manager.run(Command::sync(sync())).await.unwrap_err();
    for _ in 0..2 {
        rig.manager.run(Command::sync(sync())).await.unwrap();
    }
    rig.manager.run(Command::Pause).await.unwrap();
    let notifications = rig.notifications_until("Paused").await;
    let applied: Vec<_> = notifications
        .iter()
        .filter(|text| text.starts_with("EVENT HookApplied"))
        .collect();
    // PreStart and OnDefineDomain returned a run each.
    let expected = format!(
        "EVENT HookApplied: hook hook-sidecar-0: smbios 1.2.0 (sha256:{}) changed 2 paths",
        "ab".repeat(32)
    );
    assert_eq!(applied, [&expected], "{notifications:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn operator_can_omit_the_events_of_applied_hooks() {
    let hooks = Arc::new(ScriptedHooks {
        omits_applied_events: true,
        ..ScriptedHooks::default()
    });
    *hooks.runs.lock().unwrap() = vec![run_at(HookPoint::OnDefineDomain)];
    let rig = Rig::with(hooks.clone()).await;
    rig.manager.run(Command::sync(sync())).await.unwrap();
    rig.manager.run(Command::Pause).await.unwrap();
    let notifications = rig.notifications_until("Paused").await;
    assert_eq!(count(&notifications, "EVENT"), 0, "{notifications:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn libvirts_errors_keep_code_and_text() {
    let rig = Rig::new().await;
    rig.fake
        .fail_next(Call::Define, FakeDaemon::error(27, 20, "XML error: no"));
    let error = rig.manager.run(Command::sync(sync())).await.unwrap_err();
    assert_eq!(
        error.message(),
        "LibvirtError(Code=27, Domain=20, Message='XML error: no')"
    );
    assert_eq!(state(&rig), None);
    let error = rig.manager.run(Command::Pause).await.unwrap_err();
    assert!(matches!(*error, OpError::NotFound));
    assert!(
        rig.manager
            .run(Command::Reset)
            .await
            .unwrap_err()
            .message()
            .starts_with("LibvirtError(Code=42, ")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_start_is_repeated_without_hooks() {
    let hooks = Arc::new(ScriptedHooks::default());
    let rig = Rig::with(hooks.clone()).await;
    rig.fake.fail_next(
        Call::Start,
        FakeDaemon::error(
            1,
            10,
            "internal error: QEMU unexpectedly closed the monitor",
        ),
    );
    let error = rig.manager.run(Command::sync(sync())).await.unwrap_err();
    assert!(error.message().contains("closed the monitor"));
    assert_eq!(state(&rig), Some(DomainState::Shutoff));
    rig.manager.run(Command::sync(sync())).await.unwrap();
    assert_eq!(state(&rig), Some(DomainState::Running));
    assert_eq!(
        (hooks.count("OnDefineDomain"), rig.fake.count(Call::Define)),
        (1, 1)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn ended_vm_is_not_started_again() {
    let rig = Rig::new().await;
    rig.manager.run(Command::sync(sync())).await.unwrap();
    rig.fake.power_off(DOMAIN);
    let mut json = vmi_json();
    json["status"]["phase"] = "Running".into();
    let vmi = Vmi::from_json(json.to_string().as_bytes()).unwrap();
    rig.manager.run(Command::sync(sync_of(vmi))).await.unwrap();
    assert_eq!(state(&rig), Some(DomainState::Shutoff));
}

#[tokio::test(flavor = "multi_thread")]
async fn vmi_that_starts_paused_stays_paused() {
    let rig = Rig::new().await;
    let mut json = vmi_json();
    json["spec"]["startStrategy"] = "Paused".into();
    let vmi = Vmi::from_json(json.to_string().as_bytes()).unwrap();
    for _ in 0..2 {
        rig.manager
            .run(Command::sync(sync_of(vmi.clone())))
            .await
            .unwrap();
        assert_eq!(state(&rig), Some(DomainState::Paused));
    }
    rig.manager.run(Command::Unpause).await.unwrap();
    assert_eq!(state(&rig), Some(DomainState::Running));
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_qemu_is_reported_as_crashed() {
    let rig = Rig::new().await;
    rig.manager.run(Command::sync(sync())).await.unwrap();
    rig.fake.kill_qemu(DOMAIN);
    rig.notifications_until("Shutoff/Crashed").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn connection_is_restored_and_events_continue() {
    let rig = Rig::new().await;
    rig.manager.run(Command::sync(sync())).await.unwrap();
    rig.notifications_until("Running").await;
    rig.fake.stop_daemon(CloseReason::Eof);
    assert!(rig.manager.run(Command::Pause).await.is_err());
    tokio::time::sleep(Duration::from_millis(50)).await;
    rig.fake.start_daemon();
    let pausing = async {
        while rig.manager.run(Command::Pause).await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(5), pausing)
        .await
        .unwrap();
    rig.notifications_until("Paused/User").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sync_of_another_vm_is_refused() {
    let rig = Rig::new().await;
    let mut json = vmi_json();
    json["metadata"]["name"] = "other".into();
    let vmi = Vmi::from_json(json.to_string().as_bytes()).unwrap();
    let error = rig
        .manager
        .run(Command::sync(sync_of(vmi)))
        .await
        .unwrap_err();
    assert_eq!(
        error.message(),
        "this launcher runs default_vm1, not default_other"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn every_caller_is_answered_at_the_end() {
    let rig = Rig::new().await;
    rig.fake.delay(Call::Start, Duration::from_millis(200));
    let starting = tokio::spawn({
        let manager = rig.manager.clone();
        async move { manager.run(Command::sync(sync())).await }
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    let waiting = tokio::spawn({
        let manager = rig.manager.clone();
        async move { manager.run(Command::Pause).await }
    });
    tokio::time::sleep(Duration::from_millis(20)).await;
    rig.manager.close().await;
    assert_eq!(
        waiting.await.unwrap().unwrap_err().message(),
        "the launcher is exiting"
    );
    assert!(
        starting.await.unwrap().is_ok(),
        "what was past its last safe point ends by itself"
    );
    assert_eq!(
        rig.manager.run(Command::Pause).await.unwrap_err().message(),
        "the launcher is exiting"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn domain_of_an_earlier_launcher_is_defined_again() {
    let rig = Rig::new().await;
    let left = format!(
        "<domain type='kvm'><name>{DOMAIN}</name><uuid>c5f0a5bc-1322-45b2-9526-5886dc7e2740</uuid></domain>"
    );
    let domain = rig.fake.connect().unwrap().define(&left).unwrap();
    rig.manager.run(Command::sync(sync())).await.unwrap();
    assert_eq!(state(&rig), Some(DomainState::Running));
    assert!(domain.xml(XmlKind::Inactive).unwrap().contains("<devices>"));
    let defined = rig.fake.count(Call::Define);
    rig.manager.run(Command::sync(sync())).await.unwrap();
    assert_eq!(rig.fake.count(Call::Define), defined, "once a boot");
}

#[tokio::test(flavor = "multi_thread")]
async fn disk_of_a_running_vm_is_expanded_to_its_device() {
    let rig = Rig::new().await;
    let mut vmi = vmi_json();
    vmi["spec"]["volumes"] = json!([{"name": "data", "persistentVolumeClaim": {"claimName": "x"}}]);
    vmi["spec"]["domain"]["devices"]["disks"] =
        json!([{"name": "data", "disk": {"bus": "virtio"}}]);
    vmi["status"] = json!({"volumeStatus": [{"name": "data", "target": "vda",
        "persistentVolumeClaimInfo": {"volumeMode": "Block", "capacity": {"storage": "2Gi"}}}]});
    let vmi = Vmi::from_json(vmi.to_string().as_bytes()).unwrap();
    rig.manager
        .run(Command::sync(sync_of(vmi.clone())))
        .await
        .unwrap();
    assert_eq!(
        rig.fake.count(Call::BlockInfo),
        0,
        "nothing grew before the start"
    );
    let grown = BlockInfo {
        capacity: 1 << 30,
        physical: 2 << 30,
        ..BlockInfo::default()
    };
    rig.fake.set_block_info(DOMAIN, "/dev/data", grown);
    for _ in 0..2 {
        rig.manager
            .run(Command::sync(sync_of(vmi.clone())))
            .await
            .unwrap();
    }
    let now = rig.fake.block_info(DOMAIN, "/dev/data").unwrap();
    assert_eq!(
        (now.capacity, rig.fake.count(Call::ResizeBlock)),
        (2 << 30, 1)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn sizes_of_disks_are_asked_for_once() {
    let rig = Rig::new().await;
    let mut vmi = vmi_json();
    // The claim's device is /dev/null, which is there and has no size.
    vmi["spec"]["volumes"] = json!([{"name": "null", "persistentVolumeClaim": {"claimName": "x"}}]);
    vmi["spec"]["domain"]["devices"]["disks"] =
        json!([{"name": "null", "disk": {"bus": "virtio"}}]);
    vmi["status"] = json!({"volumeStatus": [{"name": "null", "target": "vda",
        "persistentVolumeClaimInfo": {"volumeMode": "Block", "capacity": {"storage": "1Gi"}}}]});
    let vmi = Vmi::from_json(vmi.to_string().as_bytes()).unwrap();
    let sync = async || {
        let sync = Command::sync(sync_of(vmi.clone()));
        rig.manager.run(sync).await.unwrap()
    };
    sync().await;
    let size = BlockInfo {
        capacity: 1 << 30,
        physical: 1 << 30,
        ..BlockInfo::default()
    };
    rig.fake.set_block_info(DOMAIN, "/dev/null", size);
    for _ in 0..3 {
        sync().await;
    }
    assert_eq!(rig.fake.count(Call::BlockInfo), 1);
}
