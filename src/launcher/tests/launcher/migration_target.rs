//! A VM that arrives by a migration: what is prepared, what virt-handler is notified of, and what happens when it does not arrive.

use std::sync::Arc;

use hook_host::{FailurePolicy, HookError, HookPoint, Outcome, Run};
use kubevirt_api::vmi::Vmi;
use libvirt::fake::{Call, FakeDaemon};
use libvirt::{Detail, DomainState, Event, LifecycleEvent, code};
use proto::cmd::v1::MemoryDumpRequest;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use virt_launcher::manager::{Command, CommandSuccess, SyncRequest};

use crate::boot_hook_failures_and_events::run_at;
use crate::command_client::{backup, backup_start, client, vmi_request};
use crate::freeze::freeze;
use crate::scripted_hooks::ScriptedHooks;
use crate::test_launcher::{DOMAIN, TestLauncher, state, sync, sync_of, vmi_json};

pub(crate) const INCOMING: &str = "<domain type='kvm'><name>default_vm1</name>\
    <uuid>c5f0a5bc-1322-45b2-9526-5886dc7e2740</uuid><devices><interface type='ethernet'>\
    <target dev='tap0'/><alias name='ua-default'/></interface></devices></domain>";

/// The VM's request during the migration `uid`, its status edited.
pub(crate) fn migrating(uid: &str, edit: impl FnOnce(&mut Value)) -> SyncRequest {
    let mut vmi = vmi_json();
    vmi["status"]["migrationTransport"] = json!("Unix");
    vmi["status"]["migrationState"] = json!({"migrationUid": uid});
    edit(&mut vmi["status"]);
    sync_of(Vmi::from_json(vmi.to_string().as_bytes()).unwrap())
}

pub(crate) fn sync_target(uid: &str) -> Command {
    Command::SyncMigrationTarget(Arc::new(migrating(uid, |_| {})))
}

#[tokio::test(flavor = "multi_thread")]
async fn arrival_is_notified_in_order_and_ends_with_libvirts_job() {
    let launcher = TestLauncher::new().await;
    launcher.manager.run(sync_target("a")).await.unwrap();
    launcher.manager.run(sync_target("a")).await.unwrap();
    assert!(launcher.paths.share.join("migrationproxy").is_dir());
    assert_eq!(launcher.fake.count(Call::Define), 0);
    let refused = launcher
        .manager
        .run(Command::sync(sync()))
        .await
        .unwrap_err();
    assert!(refused.message().contains("arrive by a migration"));
    assert!(launcher.handler.notifications().is_empty());

    launcher.fake.begin_incoming(INCOMING).unwrap();
    launcher.notifications_until("ADDED").await;
    launcher.fake.resume_incoming(INCOMING, false).unwrap();
    let before = launcher.notifications_until("Running").await;
    let frozen = freeze(&launcher, 0).await.message;
    let expected = "failed to freeze VMI, VMI is currently during migration";
    assert_eq!(frozen, expected, "the source can still take the VM back");
    assert!(
        !before.iter().any(|line| line.contains("ended")),
        "{before:#?}"
    );
    let late = launcher.manager.run(sync_target("a")).await.unwrap();
    assert_eq!(
        late,
        CommandSuccess::AlreadySo,
        "nothing is made anew under a VM that is here"
    );
    launcher.fake.end_incoming_job(DOMAIN);
    let notifications = launcher
        .notifications_until("migration=a PreCopy ended")
        .await;
    assert_eq!(
        notifications,
        [
            "ADDED uid=1234 Paused/Migration grace=5 migration=a PreCopy",
            "MODIFIED uid=1234 Running/Unknown grace=5 migration=a PreCopy",
            "MODIFIED uid=1234 Running/Unknown grace=5 migration=a PreCopy ended",
        ]
    );
    launcher.manager.run(Command::sync(sync())).await.unwrap();
    assert_eq!(launcher.fake.count(Call::Start), 0, "it runs already");
}

/// Whether or not the domain was seen before the connection broke.
#[tokio::test(flavor = "multi_thread")]
async fn arrival_during_a_restart_of_the_daemon_is_notified() {
    for is_seen in [true, false] {
        let launcher = TestLauncher::new().await;
        launcher.manager.run(sync_target("a")).await.unwrap();
        if is_seen {
            launcher.fake.begin_incoming(INCOMING).unwrap();
            launcher.notifications_until("ADDED").await;
        }
        launcher.fake.stop_daemon(libvirt::CloseReason::Eof);
        if !is_seen {
            launcher.fake.begin_incoming(INCOMING).unwrap();
        }
        launcher.fake.resume_incoming(INCOMING, false).unwrap();
        launcher.fake.start_daemon();
        launcher.notifications_until("Running").await;
        launcher.fake.end_incoming_job(DOMAIN);
        let notifications = launcher
            .notifications_until("migration=a PreCopy ended")
            .await;
        let added = notifications
            .iter()
            .filter(|line| line.starts_with("ADDED"));
        assert_eq!(added.count(), 1, "{notifications:#?}");
        launcher.manager.run(Command::Pause).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn arrival_is_notified_although_libvirt_does_not_answer_at_first() {
    for is_seen in [true, false] {
        let launcher = TestLauncher::new().await;
        launcher.manager.run(sync_target("a")).await.unwrap();
        if is_seen {
            launcher.fake.begin_incoming(INCOMING).unwrap();
            launcher.notifications_until("ADDED").await;
        }
        launcher.fake.stop_daemon(libvirt::CloseReason::Eof);
        if !is_seen {
            launcher.fake.begin_incoming(INCOMING).unwrap();
        }
        launcher.fake.resume_incoming(INCOMING, false).unwrap();
        let busy = "Timed out during operation: cannot acquire state change lock";
        let busy = FakeDaemon::error(code::OPERATION_TIMEOUT, 10, busy);
        launcher.fake.fail_next(Call::State, busy);
        launcher.fake.start_daemon();
        launcher.notifications_until("Running").await;
        launcher.fake.end_incoming_job(DOMAIN);
        launcher
            .notifications_until("migration=a PreCopy ended")
            .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn event_of_an_arrival_that_was_recovered_is_not_notified_again() {
    let launcher = TestLauncher::new().await;
    launcher.manager.run(sync_target("a")).await.unwrap();
    launcher.fake.stop_daemon(libvirt::CloseReason::Eof);
    launcher.fake.begin_incoming(INCOMING).unwrap();
    launcher.fake.resume_incoming(INCOMING, false).unwrap();
    launcher.fake.start_daemon();
    // The last one of what was recovered.
    let before = launcher.notifications_until("MODIFIED").await.len();
    for (event, detail) in [
        (LifecycleEvent::Started, Detail::Migrated),
        (LifecycleEvent::Resumed, Detail::Migrated),
    ] {
        launcher.fake.publish(&Event::Lifecycle {
            domain: DOMAIN.into(),
            event,
            detail,
        });
    }
    launcher.manager.run(Command::Pause).await.unwrap();
    let notifications = launcher.notifications_until("Paused/User").await;
    assert_eq!(notifications.len(), before + 1, "{notifications:#?}");
    let added = notifications
        .iter()
        .filter(|line| line.starts_with("ADDED"));
    assert_eq!(added.count(), 1, "{notifications:#?}");
}

/// What changes or reads the guest, with the words of the answer.
async fn early_answers(launcher: &TestLauncher) -> Vec<(&'static str, String)> {
    let client = client(launcher).await;
    let mut answers = Vec::new();
    macro_rules! order {
        ($($method:ident($request:expr)),* $(,)?) => {$(
            let answer = client.clone().$method($request).await.unwrap().into_inner();
            answers.push((stringify!($method), match answer.success {
                true => "success".to_owned(),
                false => answer.message,
            }));
        )*};
    }
    order!(
        sync_virtual_machine(vmi_request()),
        pause_virtual_machine(vmi_request()),
        unpause_virtual_machine(vmi_request()),
        reset_virtual_machine(vmi_request()),
        soft_reboot_virtual_machine(vmi_request()),
        unfreeze_virtual_machine(vmi_request()),
        sync_virtual_machine_cp_us(vmi_request()),
        sync_virtual_machine_memory(vmi_request()),
        virtual_machine_memory_dump(MemoryDumpRequest {
            vmi: vmi_request().vmi,
            dump_path: "/d/vm1.memory.dump".into(),
        }),
    );
    answers
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_are_refused_until_the_guest_has_arrived() {
    const EARLY: &str = "the virtual machine has not arrived in this pod yet";
    let launcher = TestLauncher::new().await;
    launcher.manager.run(sync_target("a")).await.unwrap();
    for is_incoming in [false, true] {
        if is_incoming {
            launcher.fake.begin_incoming(INCOMING).unwrap();
            launcher.notifications_until("ADDED").await;
        }
        for (method, answer) in early_answers(&launcher).await {
            let expected = match method {
                "sync_virtual_machine" => "arrive by a migration",
                _ => EARLY,
            };
            assert!(answer.contains(expected), "{method}: {answer}");
        }
        let answer = backup(&launcher, "Enabled", backup_start()).await;
        let expected = "failed to do backup, VMI is currently during migration";
        assert_eq!((answer.success, answer.message.as_str()), (false, expected));
        let cancelled = launcher.manager.run(Command::CancelMigration).await;
        assert!(cancelled.is_ok(), "{cancelled:?}");
    }
    for call in [Call::Suspend, Call::Resume, Call::Reset, Call::SetVcpus] {
        assert_eq!(launcher.fake.count(call), 0, "{call:?}");
    }
    launcher.fake.resume_incoming(INCOMING, false).unwrap();
    launcher.notifications_until("Running").await;
    launcher.manager.run(Command::Pause).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn repeated_preparation_does_not_cut_libvirts_hook() {
    let launcher = TestLauncher::new().await;
    launcher.manager.run(sync_target("a")).await.unwrap();
    let socket = launcher.paths.migration_hook_socket();
    let mut hook = UnixStream::connect(&socket).await.unwrap();
    let (begin, end) = INCOMING.split_at(20);
    hook.write_all(begin.as_bytes()).await.unwrap();
    launcher.manager.run(sync_target("a")).await.unwrap();
    hook.write_all(end.as_bytes()).await.unwrap();
    let mut edited = String::new();
    hook.read_to_string(&mut edited).await.unwrap();
    assert!(edited.contains("<name>default_vm1</name>"), "{edited}");
}

/// The answer of the launcher to libvirt's hook.
async fn libvirts_hook(launcher: &TestLauncher, xml: &str) -> String {
    let socket = launcher.paths.migration_hook_socket();
    let mut hook = UnixStream::connect(&socket).await.unwrap();
    hook.write_all(xml.as_bytes()).await.unwrap();
    hook.shutdown().await.unwrap();
    let mut answer = String::new();
    hook.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test(flavor = "multi_thread")]
async fn hook_that_refuses_an_arrival_or_is_ignored_there_has_one_event() {
    let hooks = Arc::new(ScriptedHooks::default());
    let launcher = TestLauncher::with(hooks.clone()).await;
    launcher.manager.run(sync_target("a")).await.unwrap();
    *hooks.arrival_veto.lock().unwrap() = Some("not this node".into());
    for _ in 0..2 {
        libvirts_hook(&launcher, INCOMING).await;
    }
    *hooks.arrival_veto.lock().unwrap() = None;
    let error = HookError::Veto {
        hook: "painter".into(),
        point: HookPoint::OnDefineDomain,
        message: "no".into(),
    };
    *hooks.runs.lock().unwrap() = vec![Run {
        outcome: Outcome::Failed(error),
        failure_policy: FailurePolicy::Ignore,
        ..run_at(HookPoint::OnDefineDomain)
    }];
    let answer = libvirts_hook(&launcher, INCOMING).await;
    assert!(answer.contains("<name>default_vm1</name>"), "{answer}");
    let refused = "EVENT HookDenied: hook policy refuses at OnDefineDomain: not this node";
    let ignored = "EVENT HookDenied: hook painter refuses at OnDefineDomain: no; ignored, as its failurePolicy says";
    let notifications = launcher.notifications_until("ignored").await;
    assert_eq!(notifications, [refused, ignored]);
}

#[tokio::test(flavor = "multi_thread")]
async fn vm_that_its_owner_paused_stays_paused() {
    let launcher = TestLauncher::new().await;
    let paused = migrating("a", |status| {
        status["conditions"] = json!([{"type": "Paused", "status": "True"}]);
    });
    let command = Command::SyncMigrationTarget(Arc::new(paused));
    launcher.manager.run(command).await.unwrap();
    launcher.fake.begin_incoming(INCOMING).unwrap();
    launcher.fake.resume_incoming(INCOMING, true).unwrap();
    launcher.fake.end_incoming_job(DOMAIN);
    launcher
        .notifications_until("Paused/User grace=5 migration=a PreCopy ended")
        .await;
    launcher.manager.run(Command::sync(sync())).await.unwrap();
    let state = launcher.fake.state(DOMAIN).map(|state| state.state);
    assert_eq!(state, Some(DomainState::Paused));
}

/// Its owner has unpaused it on the source after this pod was prepared.
#[tokio::test(flavor = "multi_thread")]
async fn vm_that_arrives_running_is_resumed_after_a_disk_error() {
    let launcher = TestLauncher::new().await;
    let paused = migrating("a", |status| {
        status["conditions"] = json!([{"type": "Paused", "status": "True"}]);
    });
    let command = Command::SyncMigrationTarget(Arc::new(paused));
    launcher.manager.run(command).await.unwrap();
    launcher.fake.begin_incoming(INCOMING).unwrap();
    launcher.fake.resume_incoming(INCOMING, false).unwrap();
    launcher.fake.end_incoming_job(DOMAIN);
    launcher
        .notifications_until("migration=a PreCopy ended")
        .await;
    launcher.fake.io_error(DOMAIN, "ua-disk0");
    launcher.manager.run(Command::sync(sync())).await.unwrap();
    assert_eq!(state(&launcher), Some(DomainState::Running));
}

/// Its owner has paused it on the source after this pod was prepared.
#[tokio::test(flavor = "multi_thread")]
async fn vm_that_arrives_paused_stays_paused() {
    let launcher = TestLauncher::new().await;
    launcher.manager.run(sync_target("a")).await.unwrap();
    launcher.fake.begin_incoming(INCOMING).unwrap();
    launcher.fake.resume_incoming(INCOMING, true).unwrap();
    launcher.fake.end_incoming_job(DOMAIN);
    launcher
        .notifications_until("Paused/User grace=5 migration=a PreCopy ended")
        .await;
    launcher.manager.run(Command::sync(sync())).await.unwrap();
    let state = || launcher.fake.state(DOMAIN).map(|state| state.state);
    assert_eq!(state(), Some(DomainState::Paused));
    launcher.manager.run(Command::Unpause).await.unwrap();
    assert_eq!(state(), Some(DomainState::Running));
}

#[tokio::test(flavor = "multi_thread")]
async fn vm_that_does_not_arrive_did_not_end_here() {
    let launcher = TestLauncher::new().await;
    launcher.manager.run(sync_target("a")).await.unwrap();
    launcher.fake.begin_incoming(INCOMING).unwrap();
    launcher.notifications_until("ADDED").await;
    launcher.fake.kill_qemu(DOMAIN);
    let notifications = launcher.notifications_until("NonExistent").await;
    assert_eq!(notifications.len(), 2, "{notifications:#?}");
    assert!(notifications[1].starts_with("MODIFIED uid=1234 NoState/NonExistent"));
    assert!(!notifications[1].contains("ended"), "{notifications:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn target_that_libvirt_gives_up_without_an_event_ends_with_its_clean_up() {
    let launcher = TestLauncher::new().await;
    launcher.manager.run(sync_target("a")).await.unwrap();
    launcher.fake.begin_incoming(INCOMING).unwrap();
    launcher.notifications_until("ADDED").await;
    launcher.fake.fail_incoming(DOMAIN);
    // What the launcher does then.
    let killed = launcher.manager.run(Command::Kill).await.unwrap();
    assert_eq!(killed, CommandSuccess::AlreadySo);
    let notifications = launcher.notifications_until("NonExistent").await;
    assert_eq!(notifications.len(), 2, "{notifications:#?}");
    assert!(notifications[1].starts_with("MODIFIED uid=1234 NoState/NonExistent"));
}

#[tokio::test(flavor = "multi_thread")]
async fn veto_fails_the_preparation_and_a_repeated_request_runs_the_hooks_again() {
    let hooks = Arc::new(ScriptedHooks::default());
    *hooks.veto.lock().unwrap() = Some("not on this node".into());
    let launcher = TestLauncher::with(Arc::clone(&hooks) as _).await;
    let error = launcher.manager.run(sync_target("a")).await.unwrap_err();
    let message = error.message();
    assert!(
        message.contains("policy") && message.contains("not on this node"),
        "{message}"
    );
    *hooks.veto.lock().unwrap() = None;
    launcher.manager.run(sync_target("a")).await.unwrap();
    launcher.manager.run(sync_target("a")).await.unwrap();
    assert_eq!(hooks.count("PreStart"), 3);
    assert_eq!(hooks.count("OnDefineDomain"), 2);
}

/// KubeVirt's functional tests cancel a migration in this state.
#[tokio::test(flavor = "multi_thread")]
async fn annotation_of_functional_tests_holds_the_preparation_up() {
    let launcher = TestLauncher::new().await;
    let mut vmi = migrating("a", |_| {}).vmi.value().clone();
    vmi["metadata"]["annotations"] =
        json!({"kubevirt.io/func-test-block-migration-target-preparation": ""});
    let vmi = Vmi::from_json(vmi.to_string().as_bytes()).unwrap();
    let held_up = Command::SyncMigrationTarget(Arc::new(sync_of(vmi)));
    let error = launcher.manager.run(held_up).await.unwrap_err();
    assert_eq!(
        error.message(),
        "Blocking preparation of migration target in order to satisfy a functional test condition"
    );
    assert!(!launcher.paths.share.join("migrationproxy").exists());
    launcher.manager.run(sync_target("a")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn older_transport_listens_for_the_source() {
    let launcher = TestLauncher::new().await;
    let loopback = migrating("a", |status| status["migrationTransport"] = Value::Null);
    let command = Command::SyncMigrationTarget(Arc::new(loopback));
    launcher.manager.run(command).await.unwrap();
    let sockets = launcher.paths.share.join("migrationproxy");
    let socket = sockets.join("1234-49152-source.sock");
    UnixStream::connect(socket).await.unwrap();
    assert!(
        !sockets.join("1234-49153-source.sock").exists(),
        "no disk is copied"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn image_without_a_status_fails_the_preparation() {
    let launcher = TestLauncher::new().await;
    let mut vmi = vmi_json();
    vmi["status"]["migrationState"] = json!({"migrationUid": "a"});
    vmi["spec"]["volumes"] = json!([{"name": "ci", "cloudInitNoCloud": {"userData": "#!"}}]);
    vmi["spec"]["domain"]["devices"]["disks"] = json!([{"name": "ci", "disk": {"bus": "virtio"}}]);
    let request = sync_of(Vmi::from_json(vmi.to_string().as_bytes()).unwrap());
    let command = Command::SyncMigrationTarget(Arc::new(request));
    let error = launcher.manager.run(command).await.unwrap_err();
    assert_eq!(error.message(), "failed to find the status of volume ci");
}
