//! Admission of jobs and of commands during migrations.

use super::*;

#[test]
fn backups_run_one_after_the_other_and_an_abort_does_not_wait_for_them() {
    let mut test = TestQueue::default();
    let first = test.request(backup("bk0"), &ACTIVE);
    let repeated = test.request(backup("bk0"), &ACTIVE);
    let second = test.request(backup("bk1"), &ACTIVE);
    let third = test.request(backup("bk2"), &ACTIVE);
    let abort = test.request(abort_backup(), &ACTIVE);
    assert_eq!(test.running(), [first, abort]);
    assert_eq!(test.end(first, false, &ACTIVE), [first, repeated]);
    assert_eq!(test.end(second, true, &ACTIVE), [second]);
    assert_eq!(test.end(third, true, &ACTIVE), [third]);
}

#[test]
fn memory_dump_starts_beside_other_commands_except_a_kill() {
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

/// Its caller would take the success of the other for that of its own time limit, or file.
#[test]
fn freeze_and_memory_dump_with_other_arguments_than_the_running_one_are_refused() {
    let freeze_until = |seconds| {
        Command::Freeze(FreezeRequest {
            thaw_after: Some(std::time::Duration::from_secs(seconds)),
            persistent_tpm: false,
        })
    };
    let dump_to = |path| Command::MemoryDump(MemoryDumpRequest::new(path).unwrap());
    for (command, other) in [
        (freeze_until(10), freeze_until(300)),
        (freeze_until(10), freeze()),
        (dump_to("/d/vm1.memory.dump"), dump_to("/e/vm1.memory.dump")),
    ] {
        let mut test = TestQueue::default();
        let first = test.request(command.clone(), &ACTIVE);
        let equal = test.request(command.clone(), &ACTIVE);
        let refused = test.request(other.clone(), &ACTIVE);
        let expected = BTreeMap::from([(refused, CommandRefusal::OtherArguments)]);
        assert_eq!(test.refused, expected, "{command:?}, then {other:?}");
        assert_eq!(test.end(first, true, &ACTIVE), [first, equal]);
        let later = test.request(other, &ACTIVE);
        assert_eq!(test.running(), [later]);
    }
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
fn commands_that_change_the_guest_are_refused_until_it_has_arrived() {
    let mut test = TestQueue::default();
    let role = Role::Target;
    for incoming_migration in [
        IncomingMigrationStage::None,
        IncomingMigrationStage::Expected,
        IncomingMigrationStage::Receiving,
    ] {
        let state = VmState {
            role,
            incoming_migration,
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
            assert_eq!(test.refused[&early], CommandRefusal::NotArrived);
        }
    }
    let state = VmState {
        role,
        incoming_migration: IncomingMigrationStage::Running,
        ..ACTIVE
    };
    let pause = test.request(Command::Pause, &state);
    assert_eq!(test.running(), [pause]);
}

#[test]
fn cancellation_of_a_migration_does_not_wait_for_a_checkpoint() {
    let mut test = TestQueue::default();
    let redefine = test.request(redefine_checkpoint(), &ACTIVE);
    let role = Role::Source;
    let cancel = test.request(Command::CancelMigration, &VmState { role, ..ACTIVE });
    assert_eq!(test.running(), [redefine, cancel]);
    let late = test.request(redefine_checkpoint(), &VmState { role, ..ACTIVE });
    assert_eq!(test.refused[&late], CommandRefusal::MigratesAway);
}
