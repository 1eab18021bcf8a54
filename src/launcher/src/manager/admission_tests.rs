#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hook_host::Plugins;
use kubevirt_api::migration_options::MigrationOptions;
use kubevirt_api::vmi::Vmi;
use proptest::prelude::*;
use serde_json::json;

use super::super::command::Rule;
use super::super::sync_request::SyncRequest;
use super::*;
use crate::agent::FreezeRequest;
use crate::jobs::{
    BackupFields, BackupId, BackupRequest, Checkpoint, MemoryDumpRequest, MigrationJob, Mode,
};

const ABSENT: VmState = VmState {
    phase: Phase::Absent,
    role: Role::Boot,
    arrival: ArrivalStage::None,
    start_unreported: false,
};
const ACTIVE: VmState = VmState {
    phase: Phase::Active,
    role: Role::Boot,
    arrival: ArrivalStage::None,
    start_unreported: false,
};

/// A sync of a VMI with this UID; `spec` tells one from the other.
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

/// A queue whose callers and requests have the same numbers.
#[derive(Default)]
struct TestQueue {
    queue: Queue<u64>,
    issued: u64,
    started: Vec<(u64, Command)>,
    interrupted: Vec<u64>,
    refused: BTreeMap<u64, Refusal>,
}

impl TestQueue {
    fn request(&mut self, command: Command, state: &VmState) -> u64 {
        self.issued += 1;
        let id = self.issued;
        let actions = self.queue.request(RequestId(id), command, id, state);
        self.carry_out(actions);
        id
    }

    /// Ends a running command: who is answered.
    fn end(&mut self, id: u64, succeeded: bool, state: &VmState) -> Vec<u64> {
        self.started.retain(|(running, _)| *running != id);
        let (callers, actions) = self.queue.observe_done(RequestId(id), succeeded, state);
        self.carry_out(actions);
        callers
    }

    fn carry_out(&mut self, actions: Vec<Action<u64>>) {
        for action in actions {
            match action {
                Action::Start(id, command) => self.started.push((id.0, command)),
                Action::Interrupt(id) => self.interrupted.push(id.0),
                Action::Refuse(callers, why) => {
                    for caller in callers {
                        assert!(self.refused.insert(caller, why).is_none(), "nobody twice");
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
fn repeated_sync_joins_the_running_one() {
    let mut test = TestQueue::default();
    let boot = test.request(sync("1", 5), &ABSENT);
    let again = test.request(sync("1", 5), &ABSENT);
    assert_eq!(test.running(), [boot]);
    assert_eq!(test.end(boot, true, &ACTIVE), [boot, again]);
    assert!(test.running().is_empty());
}

#[test]
fn each_backup_has_its_own_answer_and_its_abort_does_not_wait() {
    let mut test = TestQueue::default();
    let first = test.request(backup("bk0"), &ACTIVE);
    let again = test.request(backup("bk0"), &ACTIVE);
    let second = test.request(backup("bk1"), &ACTIVE);
    let third = test.request(backup("bk2"), &ACTIVE);
    let abort = test.request(abort_backup(), &ACTIVE);
    assert_eq!(test.running(), [first, abort]);
    assert_eq!(test.end(first, false, &ACTIVE), [first, again]);
    assert_eq!(test.end(second, true, &ACTIVE), [second]);
    assert_eq!(test.end(third, true, &ACTIVE), [third]);
}

#[test]
fn different_sync_shares_the_boots_answer_and_is_applied_after_it() {
    let mut test = TestQueue::default();
    let boot = test.request(sync("1", 5), &ABSENT);
    let second = test.request(sync("1", 6), &ABSENT);
    let third = test.request(sync("1", 7), &ABSENT);
    assert_eq!(test.end(boot, true, &ACTIVE), [boot, second, third]);
    assert_eq!(test.running(), [third], "the newest alone is applied");
    assert!(test.started[0].1.is_equal(&sync("1", 7)));
    assert_eq!(
        test.end(third, true, &ACTIVE),
        Vec::<u64>::new(),
        "its caller has the boot's answer"
    );
}

#[test]
fn sync_that_followed_a_failed_boot_is_dropped() {
    let mut test = TestQueue::default();
    let boot = test.request(sync("1", 5), &ABSENT);
    let second = test.request(sync("1", 6), &ABSENT);
    assert_eq!(test.end(boot, false, &ABSENT), [boot, second]);
    assert!(test.running().is_empty());
}

#[test]
fn different_sync_replaces_the_waiting_one_and_its_callers_get_the_newest_answer() {
    let mut test = TestQueue::default();
    let running = test.request(sync("1", 5), &ACTIVE);
    let waiting = test.request(sync("1", 6), &ACTIVE);
    let newest = test.request(sync("1", 7), &ACTIVE);
    assert_eq!(test.end(running, true, &ACTIVE), [running]);
    assert_eq!(test.running(), [newest]);
    assert_eq!(test.end(newest, false, &ACTIVE), [waiting, newest]);
}

#[test]
fn sync_of_another_vmi_waits_for_the_boot() {
    let mut test = TestQueue::default();
    let boot = test.request(sync("1", 5), &ABSENT);
    let other = test.request(sync("2", 5), &ABSENT);
    assert_eq!(test.end(boot, true, &ACTIVE), [boot]);
    assert_eq!(test.running(), [other]);
}

#[test]
fn sync_of_another_vmi_takes_no_place_behind_a_boot() {
    let mut test = TestQueue::default();
    let boot = test.request(sync("1", 5), &ABSENT);
    let follower = test.request(sync("1", 6), &ABSENT);
    let other = test.request(sync("2", 5), &ABSENT);
    assert_eq!(test.end(boot, false, &ABSENT), [boot, follower]);
    assert_eq!(test.running(), [other]);
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
fn memory_dump_is_started_beside_other_commands() {
    let mut test = TestQueue::default();
    let boot = test.request(sync("1", 5), &ACTIVE);
    let dump = test.request(memory_dump(), &ACTIVE);
    assert_eq!(test.running(), [boot, dump]);
    test.end(dump, true, &ACTIVE);
    let kill = test.request(Command::Kill, &ACTIVE);
    let late = test.request(memory_dump(), &ACTIVE);
    test.end(boot, true, &ACTIVE);
    assert_eq!(test.running(), [kill], "nothing starts beside a kill");
    test.end(kill, true, &ACTIVE);
    assert_eq!(test.running(), [late]);
}

#[test]
fn freeze_and_the_start_of_a_migration_wait_for_each_other() {
    for (first, second) in [(freeze(), migrate()), (migrate(), freeze())] {
        let mut test = TestQueue::default();
        let first = test.request(first, &ACTIVE);
        let second = test.request(second, &ACTIVE);
        assert_eq!(test.running(), [first]);
        test.end(first, true, &ACTIVE);
        assert_eq!(test.running(), [second]);
    }
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
fn kill_interrupts_what_runs_refuses_what_waits_and_holds_every_lane() {
    let mut test = TestQueue::default();
    let boot = test.request(sync("1", 5), &ABSENT);
    test.request(sync("1", 6), &ABSENT);
    let pause = test.request(Command::Pause, &ABSENT);
    let kill = test.request(Command::Kill, &ABSENT);
    assert_eq!(test.interrupted, [boot]);
    assert_eq!(test.refused, BTreeMap::from([(pause, Refusal::Ending)]));
    assert_eq!(test.running(), [boot, kill]);
    let joined = test.request(Command::Kill, &ABSENT);
    let late = test.request(Command::Shutdown, &ABSENT);
    test.end(boot, true, &ACTIVE);
    assert_eq!(test.running(), [kill], "nothing starts beside a kill");
    assert_eq!(test.end(kill, true, &ACTIVE), [kill, joined]);
    assert_eq!(test.running(), [late]);
}

#[test]
fn delete_is_denied_while_virt_handler_has_not_heard_of_the_start() {
    let mut test = TestQueue::default();
    let unreported = VmState {
        start_unreported: true,
        ..ACTIVE
    };
    let early = test.request(Command::Delete, &unreported);
    assert_eq!(test.refused[&early], Refusal::StartUnreported);
    let kill = test.request(Command::Kill, &unreported);
    assert_eq!(test.running(), [kill], "a kill is no mistake");
    let delete = test.request(Command::Delete, &ACTIVE);
    test.end(kill, true, &ACTIVE);
    assert_eq!(test.running(), [delete]);
}

#[test]
fn sync_is_refused_once_the_domain_is_gone() {
    let mut test = TestQueue::default();
    let gone = VmState {
        phase: Phase::Gone,
        ..ACTIVE
    };
    let late = test.request(sync("1", 5), &gone);
    assert_eq!(test.refused[&late], Refusal::Gone);
}

#[test]
fn sync_is_refused_until_the_migration_has_arrived() {
    let mut test = TestQueue::default();
    let role = Role::Target;
    let early = test.request(sync("1", 5), &VmState { role, ..ABSENT });
    assert_eq!(test.refused[&early], Refusal::AwaitsMigration);
    let on_its_way = test.request(sync("1", 5), &VmState { role, ..ACTIVE });
    assert_eq!(test.refused[&on_its_way], Refusal::AwaitsMigration);
    let arrived = test.request(sync("1", 5), &ACTIVE);
    assert_eq!(test.running(), [arrived]);
}

#[test]
fn guest_that_has_not_arrived_is_not_changed() {
    let mut test = TestQueue::default();
    let role = Role::Target;
    for arrival in [
        ArrivalStage::None,
        ArrivalStage::Expected,
        ArrivalStage::Incoming,
    ] {
        let state = VmState {
            role,
            arrival,
            ..ACTIVE
        };
        for command in [
            Command::Pause,
            Command::Unpause,
            Command::Reset,
            Command::Unfreeze,
            memory_dump(),
            redefine_checkpoint(),
        ] {
            let early = test.request(command, &state);
            assert_eq!(test.refused[&early], Refusal::NotArrived);
        }
    }
    let state = VmState {
        role,
        arrival: ArrivalStage::Running,
        ..ACTIVE
    };
    let pause = test.request(Command::Pause, &state);
    assert_eq!(test.running(), [pause]);
}

#[test]
fn migration_is_cancelled_while_a_checkpoint_is_redefined() {
    let mut test = TestQueue::default();
    let redefine = test.request(redefine_checkpoint(), &ACTIVE);
    let role = Role::Source;
    let cancel = test.request(Command::CancelMigration, &VmState { role, ..ACTIVE });
    assert_eq!(test.running(), [redefine, cancel]);
    let late = test.request(redefine_checkpoint(), &VmState { role, ..ACTIVE });
    assert_eq!(test.refused[&late], Refusal::MigratesAway);
}

#[test]
fn closed_queue_refuses_every_command() {
    let mut test = TestQueue::default();
    let boot = test.request(sync("1", 5), &ABSENT);
    let pause = test.request(Command::Pause, &ABSENT);
    let actions = test.queue.close();
    test.carry_out(actions);
    assert_eq!(test.refused[&pause], Refusal::Exiting);
    assert_eq!(test.interrupted, [boot]);
    let kill = test.request(Command::Kill, &ABSENT);
    assert_eq!(test.refused[&kill], Refusal::Exiting);
    assert_eq!(test.queue.abandon(), [boot]);
}

#[test]
fn full_queue_refuses_all_but_a_kill() {
    let mut test = TestQueue::default();
    for id in 1..=MOST_WAITING as u64 + 10 {
        assert_eq!(test.request(sync("1", 5), &ACTIVE), id);
        let refused = test.refused.get(&id) == Some(&Refusal::Busy);
        assert_eq!(refused, id > MOST_WAITING as u64, "{id}");
    }
    let kill = test.request(Command::Kill, &ACTIVE);
    assert!(test.running().contains(&kill));
}

#[derive(Debug, Clone)]
enum Move {
    Request(Command, VmState),
    /// One of the running commands ends.
    End(prop::sample::Index, bool, VmState),
}

fn any_state() -> impl Strategy<Value = VmState> {
    let phases = [
        Phase::Absent,
        Phase::Defined,
        Phase::Active,
        Phase::Down,
        Phase::Gone,
    ];
    let roles = prop::sample::select(vec![Role::Boot, Role::Source, Role::Target]);
    let phases = prop::sample::select(phases.to_vec());
    let arrivals = [
        ArrivalStage::None,
        ArrivalStage::Expected,
        ArrivalStage::Incoming,
        ArrivalStage::Running,
    ];
    let arrivals = prop::sample::select(arrivals.to_vec());
    (phases, roles, arrivals, any::<bool>()).prop_map(|(phase, role, arrival, start_unreported)| {
        VmState {
            phase,
            role,
            arrival,
            start_unreported,
        }
    })
}

fn any_command() -> impl Strategy<Value = Command> {
    prop_oneof![
        4 => (0..2u32, 0..3u32).prop_map(|(uid, spec)| sync(&uid.to_string(), spec)),
        1 => Just(Command::Pause),
        1 => Just(Command::Unpause),
        1 => Just(Command::Reset),
        1 => Just(Command::Shutdown),
        1 => Just(freeze()),
        1 => Just(Command::Unfreeze),
        1 => Just(memory_dump()),
        1 => (0..2u32).prop_map(|number| backup(&format!("bk{number}"))),
        1 => Just(abort_backup()),
        1 => Just(migrate()),
        1 => Just(Command::Kill),
        1 => Just(Command::Delete),
    ]
}

fn any_move() -> impl Strategy<Value = Move> {
    let request = (any_command(), any_state()).prop_map(|(one, state)| Move::Request(one, state));
    let end = (any::<prop::sample::Index>(), any::<bool>(), any_state())
        .prop_map(|(which, succeeded, state)| Move::End(which, succeeded, state));
    prop_oneof![request, end]
}

/// No two commands run side by side of which one needs what the other holds.
fn assert_compatible(test: &TestQueue) {
    for (at, (_, one)) in test.started.iter().enumerate() {
        for (_, other) in &test.started[at + 1..] {
            let (one, other) = (one.kind().rule(), other.kind().rule());
            let ends = [one, other].map(|rule| rule.holds.contains(&Lane::End));
            let needs = |one: &Rule, other: &Rule| {
                other.holds.iter().any(|lane| one.waits_for.contains(lane))
            };
            // A kill runs beside what it has interrupted.
            let conflict = needs(one, other)
                && needs(other, one)
                && ends != [false, true]
                && ends != [true, false];
            assert!(!conflict, "{} beside {}", one.name, other.name);
        }
    }
}

proptest! {
    #[test]
    fn lanes_are_kept_and_every_caller_is_answered_once(
        moves in proptest::collection::vec(any_move(), 0..80))
    {
        let mut test = TestQueue::default();
        let mut answered = Vec::new();
        for one in moves {
            match one {
                Move::Request(command, state) => {
                    let ends = command.kind().ends_vm();
                    let id = test.request(command, &state);
                    let waits = |(running, other): &(u64, Command)| *running != id && other.kind().ends_vm();
                    if ends && !test.refused.contains_key(&id) && !test.started.iter().any(waits) {
                        prop_assert!(test.running().contains(&id), "an end never waits for ordinary work");
                    }
                }
                Move::End(which, succeeded, state) if !test.started.is_empty() => {
                    let id = which.get(&test.started).0;
                    answered.extend(test.end(id, succeeded, &state));
                }
                Move::End(..) => {}
            }
            assert_compatible(&test);
        }
        let actions = test.queue.close();
        test.carry_out(actions);
        answered.extend(test.queue.abandon());
        answered.extend(test.refused.keys());
        let distinct: BTreeSet<u64> = answered.iter().copied().collect();
        prop_assert_eq!(distinct.len(), answered.len(), "nobody twice");
        prop_assert_eq!(distinct.len() as u64, test.issued, "nobody forgotten");
    }

    #[test]
    fn every_command_is_eventually_answered(moves in proptest::collection::vec(any_move(), 0..60)) {
        let mut test = TestQueue::default();
        for one in moves {
            if let Move::Request(command, state) = one {
                test.request(command, &state);
            }
        }
        while let Some((id, _)) = test.started.first().cloned() {
            test.end(id, true, &ACTIVE);
        }
        prop_assert_eq!(test.queue.abandon(), Vec::<u64>::new());
    }

    #[test]
    fn every_command_is_decided_in_every_state(command in any_command(), state in any_state()) {
        let decided = admit(&command, &state, &Queue::<u64>::default());
        let rule = command.kind().rule();
        let denied = rule.denied_while.iter().any(|one| refusal(*one, &state).is_some());
        prop_assert_eq!(matches!(decided, Admission::Deny(_)), denied);
        prop_assert!(denied || decided == Admission::Start);
    }
}
