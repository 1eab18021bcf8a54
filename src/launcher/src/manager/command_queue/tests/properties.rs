//! Property tests of the queue.

use super::super::refusal;
use super::*;

#[derive(Debug, Clone)]
enum Step {
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
    let roles = prop::sample::select(vec![Role::NoMigration, Role::Source, Role::Target]);
    let phases = prop::sample::select(phases.to_vec());
    let stages = [
        IncomingMigrationStage::None,
        IncomingMigrationStage::Expected,
        IncomingMigrationStage::Receiving,
        IncomingMigrationStage::Running,
    ];
    let stages = prop::sample::select(stages.to_vec());
    (phases, roles, stages, any::<bool>()).prop_map(
        |(phase, role, incoming_migration, start_unreported)| VmState {
            phase,
            role,
            incoming_migration,
            start_unreported,
        },
    )
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

fn any_step() -> impl Strategy<Value = Step> {
    let request =
        (any_command(), any_state()).prop_map(|(command, state)| Step::Request(command, state));
    let end = (any::<prop::sample::Index>(), any::<bool>(), any_state())
        .prop_map(|(index, succeeded, state)| Step::End(index, succeeded, state));
    prop_oneof![request, end]
}

/// Asserts that no running command needs a resource that another running one holds.
fn assert_compatible(test: &TestQueue) {
    for (index, (_, first)) in test.started.iter().enumerate() {
        for (_, second) in &test.started[index + 1..] {
            let (first, second) = (first.kind().rule(), second.kind().rule());
            let ends = [first, second].map(|rule| rule.holds.contains(&Resource::End));
            let needs = |rule: &Rule, other: &Rule| {
                other
                    .holds
                    .iter()
                    .any(|resource| rule.waits_for.contains(resource))
            };
            // A kill runs beside the commands that it has interrupted.
            let conflict = needs(first, second)
                && needs(second, first)
                && ends != [false, true]
                && ends != [true, false];
            assert!(!conflict, "{} beside {}", first.name, second.name);
        }
    }
}

proptest! {
    #[test]
    fn commands_never_share_a_lane_and_every_caller_is_answered_once(
        steps in proptest::collection::vec(any_step(), 0..80))
    {
        let mut test = TestQueue::default();
        let mut answered = Vec::new();
        for step in steps {
            match step {
                Step::Request(command, state) => {
                    let ends = command.kind().ends_vm();
                    let id = test.request(command, &state);
                    let waits = |(running, other): &(u64, Command)| *running != id && other.kind().ends_vm();
                    if ends && !test.refused.contains_key(&id) && !test.started.iter().any(waits) {
                        prop_assert!(test.running().contains(&id), "a kill or delete waits only for another");
                    }
                }
                Step::End(index, succeeded, state) if !test.started.is_empty() => {
                    let id = index.get(&test.started).0;
                    answered.extend(test.end(id, succeeded, &state));
                }
                Step::End(..) => {}
            }
            assert_compatible(&test);
        }
        let actions = test.queue.close();
        test.carry_out(actions);
        answered.extend(test.queue.abandon());
        answered.extend(test.refused.keys());
        let distinct: BTreeSet<u64> = answered.iter().copied().collect();
        prop_assert_eq!(distinct.len(), answered.len(), "a caller is answered twice");
        prop_assert_eq!(distinct.len() as u64, test.issued, "a caller is not answered");
    }

    #[test]
    fn every_command_is_eventually_answered(steps in proptest::collection::vec(any_step(), 0..60)) {
        let mut test = TestQueue::default();
        for step in steps {
            if let Step::Request(command, state) = step {
                test.request(command, &state);
            }
        }
        while let Some((id, _)) = test.started.first().cloned() {
            test.end(id, true, &ACTIVE);
        }
        prop_assert_eq!(test.queue.abandon(), Vec::<u64>::new());
    }

    #[test]
    fn command_to_an_empty_queue_starts_unless_a_condition_denies_it(command in any_command(), state in any_state()) {
        let admission = admit(&command, &state, &Queue::<u64>::default());
        let rule = command.kind().rule();
        let denied = rule.denied_while.iter().any(|condition| refusal(*condition, &state).is_some());
        prop_assert_eq!(matches!(admission, Admission::Deny(_)), denied);
        prop_assert!(denied || admission == Admission::Start);
    }
}
