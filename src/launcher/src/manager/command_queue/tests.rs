//! Which commands wait, are interrupted or are refused.

mod jobs_and_migrations;
mod properties;
mod syncs;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hook_host::Plugins;
use kubevirt_api::migration_options::MigrationOptions;
use kubevirt_api::vmi::Vmi;
use proptest::prelude::*;
use serde_json::json;

use super::super::command::{Resource, Rule};
use super::super::incoming_migration::IncomingMigrationStage;
use super::super::sync_request::SyncRequest;
use super::super::vm_phase::Role;
use super::*;
use crate::guest_agent::FreezeRequest;
use crate::jobs::{
    BackupFields, BackupId, BackupRequest, Checkpoint, MemoryDumpRequest, MigrationJob, Mode,
};

const ABSENT: VmState = VmState {
    phase: Phase::Absent,
    role: Role::NoMigration,
    incoming_migration: IncomingMigrationStage::None,
    start_unreported: false,
};
const ACTIVE: VmState = VmState {
    phase: Phase::Active,
    role: Role::NoMigration,
    incoming_migration: IncomingMigrationStage::None,
    start_unreported: false,
};

/// A sync of a VMI with this UID. Syncs with another `spec` are different.
fn sync(uid: &str, spec: u32) -> Command {
    let vmi = json!({
        "metadata": {"name": "vm1", "namespace": "default", "uid": uid},
        "spec": {"terminationGracePeriodSeconds": spec},
    });
    Command::Sync(Arc::new(SyncRequest {
        vmi: Vmi::from_json(vmi.to_string().as_bytes()).unwrap(),
        options: Default::default(),
        plugins: Plugins::default(),
        allow_emulation: false,
    }))
}

fn memory_dump() -> Command {
    Command::MemoryDump(MemoryDumpRequest::new("/d/vm1.memory.dump").unwrap())
}

fn backup_id(name: &str) -> BackupId {
    BackupId {
        name: name.into(),
        start_time: Some("2026-11-21T13:10:00Z".parse().unwrap()),
    }
}

fn backup(name: &str) -> Command {
    let fields = BackupFields {
        id: backup_id(name),
        vmi_name: "vm1".into(),
        mode: Mode::Push,
        target_path: Some("/d".into()),
        incremental: None,
        skip_quiesce: false,
        persistent_tpm: false,
    };
    Command::StartBackup(Box::new(BackupRequest::new(fields).unwrap()))
}

fn abort_backup() -> Command {
    Command::AbortBackup(backup_id("bk0"))
}

fn redefine_checkpoint() -> Command {
    Command::RedefineCheckpoint(Checkpoint {
        name: "c1".into(),
        creation_time: None,
    })
}

fn freeze() -> Command {
    Command::Freeze(FreezeRequest {
        thaw_after: None,
        persistent_tpm: false,
    })
}

fn migrate() -> Command {
    let vmi = json!({
        "metadata": {"name": "vm1", "namespace": "default"},
        "status": {"migrationState": {"migrationUid": "m1"}},
    });
    let vmi = Vmi::from_json(vmi.to_string().as_bytes()).unwrap();
    Command::Migrate(Arc::new(
        MigrationJob::new(vmi, MigrationOptions::default()).unwrap(),
    ))
}

/// A queue with the actions that it returned. A caller has the number of its request.
#[derive(Default)]
struct TestQueue {
    queue: Queue<u64>,
    issued: u64,
    started: Vec<(u64, Command)>,
    interrupted: Vec<u64>,
    refused: BTreeMap<u64, CommandRefusal>,
}

impl TestQueue {
    fn request(&mut self, command: Command, state: &VmState) -> u64 {
        self.issued += 1;
        let id = self.issued;
        let actions = self.queue.request(CommandId(id), command, id, state);
        self.carry_out(actions);
        id
    }

    /// Ends a running command. Returns the callers that are answered.
    fn end(&mut self, id: u64, succeeded: bool, state: &VmState) -> Vec<u64> {
        self.started.retain(|(running, _)| *running != id);
        let (callers, actions) = self.queue.observe_done(CommandId(id), succeeded, state);
        self.carry_out(actions);
        callers
    }

    fn carry_out(&mut self, actions: Vec<Action<u64>>) {
        for action in actions {
            match action {
                Action::Start(id, command) => self.started.push((id.0, command)),
                Action::Interrupt(id) => self.interrupted.push(id.0),
                Action::Refuse(callers, reason) => {
                    for caller in callers {
                        assert!(
                            self.refused.insert(caller, reason).is_none(),
                            "answered twice"
                        );
                    }
                }
            }
        }
    }

    fn running(&self) -> Vec<u64> {
        self.started.iter().map(|(id, _)| *id).collect()
    }
}

#[test]
fn pause_unpause_pause_run_as_three_commands() {
    let mut test = TestQueue::default();
    let commands = [Command::Pause, Command::Unpause, Command::Pause];
    for id in commands.map(|command| test.request(command, &ACTIVE)) {
        assert_eq!(test.running(), [id]);
        assert_eq!(test.end(id, true, &ACTIVE), [id]);
    }
}

#[test]
fn hung_guest_does_not_delay_a_pause() {
    let mut test = TestQueue::default();
    let shutdown = test.request(Command::Shutdown, &ACTIVE);
    let pause = test.request(Command::Pause, &ACTIVE);
    assert_eq!(test.running(), [shutdown, pause]);
}

#[test]
fn shutdown_waits_for_the_boot() {
    let mut test = TestQueue::default();
    let boot = test.request(sync("1", 5), &ABSENT);
    let shutdown = test.request(Command::Shutdown, &ABSENT);
    assert_eq!(test.running(), [boot]);
    test.end(boot, true, &ACTIVE);
    assert_eq!(test.running(), [shutdown]);
}

#[test]
fn kill_interrupts_running_commands_refuses_waiting_ones_and_runs_alone() {
    let mut test = TestQueue::default();
    let boot = test.request(sync("1", 5), &ABSENT);
    let follower = test.request(sync("1", 6), &ABSENT);
    let pause = test.request(Command::Pause, &ABSENT);
    let kill = test.request(Command::Kill, &ABSENT);
    assert_eq!(test.interrupted, [boot]);
    let refused = [follower, pause].map(|id| (id, CommandRefusal::Ending));
    assert_eq!(test.refused, BTreeMap::from(refused));
    assert_eq!(test.running(), [boot, kill]);
    let joined = test.request(Command::Kill, &ABSENT);
    let late = test.request(Command::Shutdown, &ABSENT);
    test.end(boot, true, &ACTIVE);
    assert_eq!(test.running(), [kill], "nothing starts beside a kill");
    assert_eq!(test.end(kill, true, &ACTIVE), [kill, joined]);
    assert_eq!(test.running(), [late]);
}

#[test]
fn delete_is_denied_until_virt_handler_has_accepted_the_notification_of_the_start() {
    let mut test = TestQueue::default();
    let unreported = VmState {
        start_unreported: true,
        ..ACTIVE
    };
    let early = test.request(Command::Delete, &unreported);
    assert_eq!(test.refused[&early], CommandRefusal::StartUnreported);
    let kill = test.request(Command::Kill, &unreported);
    assert_eq!(test.running(), [kill], "a kill is not denied");
    let delete = test.request(Command::Delete, &ACTIVE);
    test.end(kill, true, &ACTIVE);
    assert_eq!(test.running(), [delete]);
}

#[test]
fn closed_queue_refuses_every_command() {
    let mut test = TestQueue::default();
    let boot = test.request(sync("1", 5), &ABSENT);
    let pause = test.request(Command::Pause, &ABSENT);
    let actions = test.queue.close();
    test.carry_out(actions);
    assert_eq!(test.refused[&pause], CommandRefusal::Exiting);
    assert_eq!(test.interrupted, [boot]);
    let kill = test.request(Command::Kill, &ABSENT);
    assert_eq!(test.refused[&kill], CommandRefusal::Exiting);
    assert_eq!(test.queue.abandon(), [boot]);
}

#[test]
fn full_queue_refuses_every_command_except_a_kill() {
    let mut test = TestQueue::default();
    for id in 1..=MAX_CALLERS as u64 + 10 {
        assert_eq!(test.request(sync("1", 5), &ACTIVE), id);
        let refused = test.refused.get(&id) == Some(&CommandRefusal::Busy);
        assert_eq!(refused, id > MAX_CALLERS as u64, "{id}");
    }
    let kill = test.request(Command::Kill, &ACTIVE);
    assert!(test.running().contains(&kill));
}
