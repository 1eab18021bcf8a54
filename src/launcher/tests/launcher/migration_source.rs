//! The source of a migration over the command socket, and what virt-handler hears of it.

use std::sync::Arc;
use std::time::Duration;

use libvirt::fake::{Call, FakeDaemon, MigrationPlan};
use libvirt::{
    CloseReason, Detail, DomainState, Event, LifecycleEvent, Reason, StartOptions, State,
};
use proto::cmd::v1::{
    EmptyRequest, GuestPingRequest, MemoryDumpRequest, MigrationRequest, Response, Vmi,
};
use serde_json::{Value, json};
use virt_launcher::manager::Command;

use crate::command_service::{client, vmi_request};
use crate::fake_libvirt_rig::{DOMAIN, Rig, ScriptedHooks, sync, vmi_json};
use crate::freeze::freeze;
use crate::guest_agent::eventually;

const SLOW: MigrationPlan = MigrationPlan {
    prepare: Duration::ZERO,
    transfer: Duration::from_secs(600),
    never_converges: false,
    stuck: false,
    handed_over: false,
    recovery: Duration::ZERO,
};

async fn running() -> Rig {
    let rig = Rig::new().await;
    rig.manager.run(Command::sync(sync())).await.unwrap();
    rig.notifications_until("Running").await;
    rig
}

fn request(uid: &str, options: Value) -> MigrationRequest {
    let mut vmi = vmi_json();
    vmi["status"]["migrationState"] = json!({"migrationUid": uid});
    MigrationRequest {
        vmi: Some(Vmi {
            vmi_json: vmi.to_string().into_bytes(),
        }),
        options: options.to_string().into_bytes(),
    }
}

async fn migrate_with(rig: &Rig, uid: &str, options: Value) -> Response {
    let mut client = client(rig).await;
    let answer = client.migrate_virtual_machine(request(uid, options));
    answer.await.unwrap().into_inner()
}

pub(crate) async fn migrate(rig: &Rig, uid: &str) -> Response {
    migrate_with(
        rig,
        uid,
        json!({"ProgressTimeout": 150, "CompletionTimeoutPerGiB": 150}),
    )
    .await
}

async fn cancel(rig: &Rig) {
    let mut client = client(rig).await;
    let answer = client.cancel_virtual_machine_migration(vmi_request());
    assert!(answer.await.unwrap().into_inner().success);
}

/// What virt-handler heard of migrations, repetitions left out.
fn records(notifications: &[String]) -> Vec<String> {
    let lines = notifications
        .iter()
        .filter(|line| line.contains("migration="));
    let mut records: Vec<String> = lines
        .map(|line| {
            line.replace("MODIFIED uid=1234 ", "")
                .replace(" grace=5", "")
        })
        .collect();
    records.dedup();
    records
}

async fn until_migrating(rig: &Rig) {
    let calling = async {
        while !rig.fake.is_migrating(DOMAIN) {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), calling)
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn migrated_vm_is_published_with_the_end_and_is_never_started_again() {
    let rig = running().await;
    rig.fake.set_migration(MigrationPlan {
        transfer: Duration::from_millis(300),
        ..SLOW
    });
    assert!(migrate(&rig, "m1").await.success);
    let notifications = rig.notifications_until("ended").await;
    let records = records(&notifications);
    assert_eq!(records[0], "Running/Unknown migration=m1 PreCopy");
    let last = records.last().unwrap();
    assert_eq!(last, "Shutoff/Migrated migration=m1 PreCopy ended");
    rig.manager.run(Command::sync(sync())).await.unwrap();
    assert_eq!(rig.fake.state(DOMAIN).unwrap().state, DomainState::Shutoff);
    let mut client = client(&rig).await;
    let deleted = client.delete_virtual_machine(vmi_request()).await.unwrap();
    assert!(deleted.into_inner().success);
    let notifications = rig.notifications_until("NonExistent").await;
    assert!(notifications.last().unwrap().ends_with("gone"));
    let migrated = |line: &&String| line.contains("Shutoff/Migrated");
    assert_eq!(
        notifications.iter().filter(migrated).count(),
        1,
        "{notifications:#?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn guest_agent_probe_succeeds_while_the_vm_migrates() {
    let rig = running().await;
    rig.fake.set_migration(SLOW);
    let ping = GuestPingRequest {
        domain_name: DOMAIN.into(),
        timeout_seconds: 1,
    };
    let mut client = client(&rig).await;
    // No agent is connected.
    assert!(client.guest_ping(ping.clone()).await.is_err());
    assert!(migrate(&rig, "m1").await.success);
    until_migrating(&rig).await;
    let answer = client.guest_ping(ping.clone()).await.unwrap().into_inner();
    assert!(answer.response.unwrap().success);
    // The probe that failed is an event with other words.
    let error = "internal error: client socket is closed";
    rig.fake
        .fail_migration(DOMAIN, FakeDaemon::error(1, 7, error));
    rig.notifications_until("client socket is closed").await;
    assert!(client.guest_ping(ping).await.is_err(), "it has ended");
}

#[tokio::test(flavor = "multi_thread")]
async fn repeated_request_has_no_effect_and_an_executed_one_is_an_error() {
    let rig = running().await;
    rig.fake.set_migration(SLOW);
    assert!(migrate(&rig, "m1").await.success);
    until_migrating(&rig).await;
    assert!(migrate(&rig, "m1").await.success);
    let other = migrate(&rig, "m2").await;
    assert!(
        !other.success && other.message.contains("a migration is in progress"),
        "{other:?}"
    );
    let error = "internal error: client socket is closed";
    rig.fake
        .fail_migration(DOMAIN, FakeDaemon::error(1, 7, error));
    rig.notifications_until("failed").await;
    assert_eq!(rig.fake.count(Call::Migrate), 1);
    let again = migrate(&rig, "m1").await;
    let expected = "migration job m1 already executed, finished at ";
    assert!(
        !again.success && again.message.starts_with(expected),
        "{again:?}"
    );
    assert!(
        again.message.ends_with(", failed: true, abortStatus: "),
        "{again:?}"
    );
    rig.fake.set_migration(MigrationPlan::default());
    assert!(
        migrate(&rig, "m2").await.success,
        "another migration may follow a failed one"
    );
    rig.notifications_until("migration=m2 PreCopy ended").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn failure_has_libvirts_text_and_the_vm_runs_on() {
    let rig = running().await;
    let text = "internal error: process exited while connecting to monitor";
    rig.fake
        .fail_next(Call::Migrate, FakeDaemon::error(1, 10, text));
    assert!(migrate(&rig, "m1").await.success);
    let notifications = rig.notifications_until("failed").await;
    let expected = format!(
        "Running/Unknown migration=m1 PreCopy ended failed: virError(Code=1, Domain=10, Message='{text}')"
    );
    assert_eq!(records(&notifications).last().unwrap(), &expected);
    rig.manager.run(Command::Pause).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn qemu_that_its_guest_has_left_is_not_told_to_shut_down() {
    for has_left in [false, true] {
        let rig = running().await;
        if has_left {
            rig.fake.publish(&Event::Lifecycle {
                domain: DOMAIN.into(),
                event: LifecycleEvent::Suspended,
                detail: Detail::Migrated,
            });
        }
        let reads = rig.fake.count(Call::Xml);
        rig.fake.begin_end(DOMAIN);
        match has_left {
            false => drop(rig.notifications_until("ShuttingDown").await),
            true => {
                // The observer has read the state when it reads the description.
                eventually("the observer's look", async || {
                    rig.fake.count(Call::Xml) > reads
                })
                .await;
            }
        }
        rig.fake.kill_qemu(DOMAIN);
        let notifications = rig.notifications_until("Shutoff/Crashed").await;
        let shuts_down = notifications.iter().any(|one| one.contains("ShuttingDown"));
        assert_eq!(shuts_down, !has_left, "{notifications:#?}");
    }
}

/// The event of the guest that runs on is lost with the daemon.
#[tokio::test(flavor = "multi_thread")]
async fn qemu_whose_guest_came_back_is_told_to_shut_down() {
    let rig = running().await;
    let before = rig.handler.notifications().len();
    rig.fake.publish(&Event::Lifecycle {
        domain: DOMAIN.into(),
        event: LifecycleEvent::Suspended,
        detail: Detail::Migrated,
    });
    let told = rig.notifications(before + 1).await.len();
    rig.fake.stop_daemon(CloseReason::Eof);
    rig.fake.start_daemon();
    rig.notifications(told + 1).await;
    rig.fake.begin_end(DOMAIN);
    rig.notifications_until("ShuttingDown").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn guest_agent_probe_succeeds_while_the_vm_migrates_and_its_agent_is_silent() {
    let rig = running().await;
    let silent = |json: &str| {
        if json.contains("guest-ping") {
            std::thread::sleep(Duration::from_secs(5));
        }
        Ok("{}".to_owned())
    };
    rig.fake.set_agent(DOMAIN, Some(Arc::new(silent)));
    rig.fake.set_migration(SLOW);
    assert!(migrate(&rig, "m1").await.success);
    until_migrating(&rig).await;
    let ping = GuestPingRequest {
        domain_name: DOMAIN.into(),
        timeout_seconds: 1,
    };
    let answer = client(&rig).await.guest_ping(ping).await.unwrap();
    assert!(answer.into_inner().response.unwrap().success);
}

#[tokio::test(flavor = "multi_thread")]
async fn failure_that_a_closed_connection_hides_is_read_from_libvirts_log() {
    const CLOSED: &str =
        "virError(Code=1, Domain=7, Message='internal error: client socket is closed')";
    let rig = running().await;
    let reason = "operation failed: migration of disk vda failed: No space left on device";
    let explained = format!("{CLOSED}; before that: {reason}");
    for (uid, logged, expected) in [
        ("m1", Some(reason), explained.as_str()),
        ("m2", None, CLOSED),
    ] {
        rig.fake.set_migration(SLOW);
        assert!(migrate(&rig, uid).await.success);
        until_migrating(&rig).await;
        if let Some(reason) = logged {
            let position = "qemuMigrationNBDReportMirrorError:798";
            rig.migration_log.observe(position, reason);
        }
        let error = FakeDaemon::error(1, 7, "internal error: client socket is closed");
        let failed = format!("migration={uid} PreCopy ended failed: ");
        rig.fake.fail_migration(DOMAIN, error);
        let notifications = rig.notifications_until(&failed).await;
        let last = records(&notifications).pop().unwrap();
        assert!(last.ends_with(&format!("failed: {expected}")), "{last}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelled_migration_is_told_once_it_has_stopped() {
    let rig = running().await;
    rig.fake.set_migration(MigrationPlan {
        prepare: Duration::from_millis(400),
        ..SLOW
    });
    assert!(migrate(&rig, "m1").await.success);
    until_migrating(&rig).await;
    rig.notifications_until("migration=m1 PreCopy").await;
    // During the preparation of the target, which libvirt does not interrupt.
    cancel(&rig).await;
    cancel(&rig).await;
    let notifications = rig.notifications_until("failed").await;
    let expected = [
        "Running/Unknown migration=m1 PreCopy",
        "Running/Unknown migration=m1 PreCopy Aborting",
        "Running/Unknown migration=m1 PreCopy Succeeded ended failed: Live migration has been aborted",
    ];
    assert_eq!(records(&notifications), expected);
    assert_eq!(rig.fake.count(Call::AbortJob), 1);
    cancel(&rig).await;
    assert_eq!(
        rig.fake.count(Call::AbortJob),
        1,
        "an ended migration is not cancelled"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn abort_that_libvirt_refuses_is_recorded_and_success_wins() {
    let rig = running().await;
    rig.fake.set_migration(MigrationPlan {
        transfer: Duration::from_millis(1500),
        ..SLOW
    });
    let refusal = "internal error: the migration is past the point of no return";
    rig.fake
        .fail_next(Call::AbortJob, FakeDaemon::error(1, 10, refusal));
    assert!(migrate(&rig, "m1").await.success);
    until_migrating(&rig).await;
    cancel(&rig).await;
    rig.notifications_until("migration=m1 PreCopy Failed").await;
    let notifications = rig.notifications_until("ended").await;
    let last = records(&notifications).pop().unwrap();
    assert_eq!(last, "Shutoff/Migrated migration=m1 PreCopy ended");
}

#[tokio::test(flavor = "multi_thread")]
async fn completion_by_force_pauses_the_guest_or_continues_it_on_the_target() {
    for (post_copy, mode, call) in [
        (false, "Paused", Call::Suspend),
        (true, "PostCopy", Call::StartPostCopy),
    ] {
        let rig = running().await;
        rig.fake.set_migration(MigrationPlan {
            transfer: Duration::from_millis(100),
            never_converges: true,
            ..SLOW
        });
        let options = json!({"CompletionTimeoutPerGiB": 1, "AllowWorkloadDisruption": true, "AllowPostCopy": post_copy});
        assert!(migrate_with(&rig, "m1", options).await.success);
        let notifications = rig.notifications_until("ended").await;
        let last = records(&notifications).pop().unwrap();
        assert_eq!(last, format!("Shutoff/Migrated migration=m1 {mode} ended"));
        assert_eq!(rig.fake.count(call), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn late_migration_is_aborted_and_a_paused_guest_resumed() {
    let rig = running().await;
    rig.fake.set_migration(MigrationPlan {
        stuck: true,
        ..SLOW
    });
    let options = json!({"CompletionTimeoutPerGiB": 1, "AllowWorkloadDisruption": true});
    assert!(migrate_with(&rig, "m1", options).await.success);
    let notifications = rig.notifications_until("failed").await;
    let records = records(&notifications);
    let expected = "migration=m1 Paused Succeeded ended failed: Live migration has been aborted";
    assert!(records.last().unwrap().ends_with(expected), "{records:#?}");
    assert!(
        records
            .iter()
            .any(|line| line.starts_with("Paused/Migration")),
        "{records:#?}"
    );
    assert_eq!(rig.fake.state(DOMAIN).unwrap().state, DomainState::Running);
}

#[tokio::test(flavor = "multi_thread")]
async fn stall_detector_limits_the_downtime() {
    let rig = running().await;
    rig.fake.set_migration(MigrationPlan {
        transfer: Duration::from_millis(1000),
        ..SLOW
    });
    let options = json!({"MaxDowntimeMs": 900, "StallDetectorOptions": {"StallMargin": 0.04,
        "StallProgressTimeout": 40, "SwitchoverTimeout": 60, "EwmaAlpha": 0.4}});
    assert!(migrate_with(&rig, "m1", options).await.success);
    rig.notifications_until("ended").await;
    assert_eq!(rig.fake.max_downtimes(), [300]);
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_that_libvirt_would_not_carry_out_are_refused_meanwhile() {
    let rig = running().await;
    rig.fake.set_migration(SLOW);
    assert!(migrate(&rig, "m1").await.success);
    until_migrating(&rig).await;
    for command in [Command::Pause, Command::Unpause, Command::Reset] {
        let refused = rig.manager.run(command).await.unwrap_err();
        assert!(refused.message().contains("is being migrated"), "{refused}");
    }
    let frozen = freeze(&rig, 0).await;
    assert_eq!(
        (frozen.success, &*frozen.message),
        (
            false,
            "failed to freeze VMI, VMI is currently during migration"
        )
    );
    rig.manager.run(Command::sync(sync())).await.unwrap();
    let mut client = client(&rig).await;
    let dump = MemoryDumpRequest {
        vmi: vmi_request().vmi,
        dump_path: "/tmp/x.memory.dump".into(),
    };
    let dump = client
        .virtual_machine_memory_dump(dump)
        .await
        .unwrap()
        .into_inner();
    assert!(
        dump.message.contains("a migration is in progress"),
        "{dump:?}"
    );
    eventually("the progress of the migration", async || {
        let stats = client.clone().get_domain_stats(EmptyRequest {}).await;
        let stats = stats.unwrap().into_inner().domain_stats;
        let stats: Value = serde_json::from_str(&stats).unwrap();
        stats["MigrateDomainJobInfo"]["DataTotal"] == 256 << 20
    })
    .await;
    let killed = client.kill_virtual_machine(vmi_request()).await.unwrap();
    assert!(killed.into_inner().success);
    let notifications = rig.notifications_until("ended").await;
    let last = records(&notifications).pop().unwrap();
    let expected =
        "migration=m1 PreCopy ended failed: aborted, since the virtual machine is being ended";
    assert!(last.ends_with(expected), "{last}");
}

#[tokio::test(flavor = "multi_thread")]
async fn shutdown_ends_the_migration_first() {
    let rig = running().await;
    rig.fake.set_migration(SLOW);
    assert!(migrate(&rig, "m1").await.success);
    until_migrating(&rig).await;
    rig.manager.run(Command::Shutdown).await.unwrap();
    let notifications = rig.notifications_until("Shutoff/Shutdown").await;
    let ended =
        "migration=m1 PreCopy ended failed: aborted, since the virtual machine is being shut down";
    assert!(
        notifications.iter().any(|line| line.contains(ended)),
        "{notifications:#?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn paused_guest_stays_paused() {
    let rig = running().await;
    rig.manager.run(Command::Pause).await.unwrap();
    rig.notifications_until("Paused/User").await;
    let failure = FakeDaemon::error(9, 10, "operation failed: no");
    rig.fake.fail_next(Call::Migrate, failure);
    assert!(migrate(&rig, "m1").await.success);
    rig.notifications_until("migration=m1 PreCopy ended failed")
        .await;
    assert_eq!(rig.fake.state(DOMAIN).unwrap().state, DomainState::Paused);
    assert_eq!(
        rig.fake.migrations()[0].request.flags.bits(),
        1 + 2 + 8 + 32
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn migration_whose_daemon_is_killed_fails_and_leaves_nothing_behind() {
    let rig = running().await;
    rig.fake.set_migration(SLOW);
    assert!(migrate(&rig, "m1").await.success);
    until_migrating(&rig).await;
    rig.fake.stop_daemon(CloseReason::Eof);
    rig.fake.start_daemon();
    let notifications = rig.notifications_until("ended").await;
    let last = records(&notifications).pop().unwrap();
    assert!(last.contains("client socket is closed"), "{last}");
    rig.fake.set_migration(MigrationPlan::default());
    assert!(migrate(&rig, "m2").await.success);
    rig.notifications_until("migration=m2 PreCopy ended").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn guest_that_the_target_may_run_is_never_resumed() {
    let rig = running().await;
    rig.fake.set_migration(MigrationPlan {
        handed_over: true,
        ..SLOW
    });
    assert!(migrate(&rig, "m1").await.success);
    until_migrating(&rig).await;
    rig.fake.stop_daemon(CloseReason::Eof);
    // Longer than a daemon usually needs.
    tokio::time::sleep(Duration::from_secs(11)).await;
    rig.fake.start_daemon();
    until_paused(&rig).await;
    // The target does not answer for the guest yet.
    for _ in 0..5 {
        rig.manager.run(Command::sync(sync())).await.unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(rig.fake.count(Call::Resume), 0);
    assert_eq!(rig.fake.count(Call::Destroy), 0);
    runs_on_target(&rig);
    let notifications = rig.notifications_until("ended").await;
    let last = records(&notifications).pop().unwrap();
    assert_eq!(last, "Shutoff/Migrated migration=m1 PreCopy ended");
    assert_eq!(rig.fake.count(Call::Resume), 0);
    rig.manager.run(Command::sync(sync())).await.unwrap();
    assert_eq!(rig.fake.state(DOMAIN).unwrap().state, DomainState::Shutoff);
}

async fn until_paused(rig: &Rig) {
    eventually("the guest is paused", async || {
        rig.fake.state(DOMAIN).unwrap() == State::new(DomainState::Paused, Reason::Migration)
    })
    .await;
}

/// The guest runs on the target.
fn runs_on_target(rig: &Rig) {
    let target = rig.target.connect().unwrap();
    let xml = format!("<domain type='kvm'><name>{DOMAIN}</name></domain>");
    let domain = target.define(&xml).unwrap();
    domain.start(StartOptions::RUNNING).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn guest_that_may_run_on_the_target_is_ended_only_with_its_launcher() {
    let rig = running().await;
    rig.fake.set_migration(MigrationPlan {
        handed_over: true,
        ..SLOW
    });
    assert!(migrate(&rig, "m1").await.success);
    until_migrating(&rig).await;
    rig.fake.stop_daemon(CloseReason::Eof);
    rig.fake.start_daemon();
    until_paused(&rig).await;
    cancel(&rig).await;
    rig.notifications_until("migration=m1 PreCopy Failed").await;
    let state = rig.fake.state(DOMAIN).unwrap();
    assert_eq!(state, State::new(DomainState::Paused, Reason::Migration));
    let mut client = client(&rig).await;
    let killed = client.kill_virtual_machine(vmi_request()).await.unwrap();
    assert!(killed.into_inner().success);
    let notifications = rig.notifications_until("ended").await;
    let last = records(&notifications).pop().unwrap();
    let expected = "ended failed: aborted, since the virtual machine is being ended; the guest is not resumed here";
    assert!(last.contains(expected), "{last}");
    assert_eq!(rig.fake.count(Call::Resume), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn guest_whose_post_copy_failed_never_runs_here_again() {
    let rig = running().await;
    rig.fake.set_migration(MigrationPlan {
        never_converges: true,
        ..SLOW
    });
    let options = json!({"CompletionTimeoutPerGiB": 1, "AllowWorkloadDisruption": true, "AllowPostCopy": true});
    assert!(migrate_with(&rig, "m1", options).await.success);
    rig.notifications_until("Paused/Postcopy").await;
    let error = "internal error: client socket is closed";
    rig.fake
        .fail_migration(DOMAIN, FakeDaemon::error(1, 7, error));
    let notifications = rig.notifications_until("ended failed").await;
    let last = records(&notifications).pop().unwrap();
    assert!(last.contains("the guest is not resumed here"), "{last}");
    rig.manager.run(Command::sync(sync())).await.unwrap();
    assert!(rig.manager.run(Command::Unpause).await.is_err());
    assert!(!migrate(&rig, "m2").await.success);
    assert_eq!(rig.fake.count(Call::Resume), 0);
    let state = rig.fake.state(DOMAIN).unwrap();
    assert_eq!(
        state,
        State::new(DomainState::Paused, Reason::PostcopyFailed)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn guest_that_the_next_daemon_is_about_to_resume_is_not_ended() {
    let rig = running().await;
    rig.fake.set_migration(MigrationPlan {
        stuck: true,
        recovery: Duration::from_secs(1),
        ..SLOW
    });
    let options = json!({"CompletionTimeoutPerGiB": 1, "AllowWorkloadDisruption": true});
    assert!(migrate_with(&rig, "m1", options).await.success);
    // The launcher has suspended the guest; libvirt's event is that of the switch to the target.
    rig.notifications_until("Paused/Migration").await;
    until_paused(&rig).await;
    rig.fake.stop_daemon(CloseReason::Eof);
    rig.fake.start_daemon();
    let notifications = rig.notifications_until("ended").await;
    let last = records(&notifications).pop().unwrap();
    assert!(last.contains("client socket is closed"), "{last}");
    assert_eq!(rig.fake.count(Call::Destroy), 0);
    assert_eq!(rig.fake.state(DOMAIN).unwrap().state, DomainState::Running);
}

#[tokio::test(flavor = "multi_thread")]
async fn guest_that_the_launcher_has_suspended_and_that_dies_has_not_migrated() {
    let rig = running().await;
    rig.fake.set_migration(MigrationPlan {
        stuck: true,
        recovery: Duration::from_millis(500),
        ..SLOW
    });
    let options = json!({"CompletionTimeoutPerGiB": 1, "AllowWorkloadDisruption": true});
    assert!(migrate_with(&rig, "m1", options).await.success);
    rig.notifications_until("Paused/Migration").await;
    until_paused(&rig).await;
    rig.fake.stop_daemon(CloseReason::Eof);
    rig.fake.kill_qemu(DOMAIN);
    rig.fake.start_daemon();
    let notifications = rig.notifications_until("ended").await;
    let last = records(&notifications).pop().unwrap();
    assert!(last.starts_with("Shutoff/Crashed"), "{last}");
    assert!(last.contains("ended failed"), "{last}");
}

#[tokio::test(flavor = "multi_thread")]
async fn guest_that_died_after_the_switch_is_where_the_target_says() {
    for has_arrived in [false, true] {
        let rig = running().await;
        rig.fake.set_migration(MigrationPlan {
            handed_over: true,
            transfer: Duration::from_secs(600),
            ..SLOW
        });
        assert!(migrate(&rig, "m1").await.success);
        until_migrating(&rig).await;
        rig.fake.publish(&Event::Lifecycle {
            domain: DOMAIN.into(),
            event: LifecycleEvent::Suspended,
            detail: Detail::Migrated,
        });
        rig.fake.stop_daemon(CloseReason::Eof);
        until_paused(&rig).await;
        rig.fake.kill_qemu(DOMAIN);
        if has_arrived {
            runs_on_target(&rig);
        }
        rig.fake.start_daemon();
        let notifications = rig.notifications_until("ended").await;
        let last = records(&notifications).pop().unwrap();
        let (state, failed) = match has_arrived {
            true => ("Shutoff/Migrated", false),
            false => ("Shutoff/Crashed", true),
        };
        assert!(last.starts_with(state), "{last}");
        assert_eq!(last.contains("failed"), failed, "{last}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn useless_requests_are_refused() {
    let rig = running().await;
    let mut client = client(&rig).await;
    let mut refusal = async |request: MigrationRequest| {
        let answer = client
            .migrate_virtual_machine(request)
            .await
            .unwrap()
            .into_inner();
        assert!(!answer.success);
        answer.message
    };
    assert!(
        refusal(MigrationRequest::default())
            .await
            .contains("No valid vmi")
    );
    let no_options = MigrationRequest {
        options: Vec::new(),
        ..request("m1", json!({}))
    };
    assert_eq!(
        refusal(no_options).await,
        "migration options object not present in command server request"
    );
    assert!(
        refusal(request("m1", json!({"Bandwidth": []})))
            .await
            .contains("Bandwidth")
    );
    let unready = MigrationRequest {
        vmi: vmi_request().vmi,
        options: b"{}".to_vec(),
    };
    assert!(
        refusal(unready)
            .await
            .contains("until migrationState is ready")
    );
    assert_eq!(rig.fake.count(Call::Migrate), 0);
    cancel(&rig).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn veto_of_a_hook_ends_the_migration_before_libvirt_is_asked() {
    let hooks = Arc::new(ScriptedHooks::default());
    let rig = Rig::with(hooks.clone()).await;
    rig.manager.run(Command::sync(sync())).await.unwrap();
    rig.notifications_until("Running").await;
    *hooks.veto.lock().unwrap() = Some("not at noon".into());
    assert!(migrate(&rig, "m1").await.success);
    let notifications = rig.notifications_until("failed").await;
    let last = notifications.last().unwrap();
    assert!(
        last.contains("ended failed: hook policy refuses at PreMigrationSource: not at noon"),
        "{last}"
    );
    assert_eq!(rig.fake.count(Call::Migrate), 0);
    assert_eq!(hooks.count("PreMigrationSource"), 1);
    assert_eq!(rig.fake.state(DOMAIN).unwrap().state, DomainState::Running);

    *hooks.veto.lock().unwrap() = None;
    rig.fake.set_migration(MigrationPlan {
        transfer: Duration::from_millis(100),
        ..SLOW
    });
    assert!(migrate(&rig, "m2").await.success);
    rig.notifications_until("migration=m2 PreCopy ended").await;
    assert_eq!(hooks.count("PreMigrationSource"), 2);
}
