//! Properties of any sequence of requests.

use super::*;

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
        IncomingStage::None,
        IncomingStage::Expected,
        IncomingStage::Receiving,
        IncomingStage::Running,
    ];
    let arrivals = prop::sample::select(arrivals.to_vec());
    (phases, roles, arrivals, any::<bool>()).prop_map(
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
