use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

type Queue = Requests<(), u32>;

fn sync() -> Verb {
    Verb::Sync {
        boot: "1234".into(),
    }
}

fn started(actions: &[Action<(), u32>]) -> Vec<Ticket> {
    actions
        .iter()
        .filter_map(|action| match action {
            Action::Start { ticket, .. } => Some(*ticket),
            _ => None,
        })
        .collect()
}

#[test]
fn a_repeated_sync_joins_the_running_one() {
    let mut queue = Queue::default();
    let ticket = started(&queue.request(sync(), (), 1))[0];
    assert_eq!(queue.request(sync(), (), 2), []);
    assert_eq!(queue.observe_done(ticket), (vec![1, 2], vec![]));
}

#[test]
fn another_boot_is_another_sync() {
    let mut queue = Queue::default();
    let first = started(&queue.request(sync(), (), 1))[0];
    assert_eq!(
        queue.request(
            Verb::Sync {
                boot: "other".into()
            },
            (),
            2
        ),
        []
    );
    let (callers, next) = queue.observe_done(first);
    assert_eq!(callers, [1]);
    assert_eq!(started(&next).len(), 1);
}

#[test]
fn pause_unpause_pause_are_three() {
    let mut queue = Queue::default();
    let mut ticket = started(&queue.request(Verb::Pause, (), 1))[0];
    queue.request(Verb::Unpause, (), 2);
    queue.request(Verb::Pause, (), 3);
    for expected in [vec![1], vec![2]] {
        let (callers, next) = queue.observe_done(ticket);
        assert_eq!(callers, expected);
        ticket = started(&next)[0];
    }
    assert_eq!(queue.observe_done(ticket), (vec![3], vec![]));
}

#[test]
fn kill_pre_empts() {
    let mut queue = Queue::default();
    let running = started(&queue.request(sync(), (), 1))[0];
    queue.request(Verb::Pause, (), 2);
    let actions = queue.request(Verb::Kill, (), 3);
    assert_eq!(actions[0], Action::Refuse(vec![2], Refusal::Ending));
    assert_eq!(actions[1], Action::Interrupt(running));
    let kill = started(&actions)[0];
    assert_eq!(queue.request(Verb::Kill, (), 4), [], "a second kill joins");
    assert_eq!(queue.observe_done(kill).0, [3, 4]);
    assert_eq!(queue.observe_done(running).0, [1]);
}

#[test]
fn after_closing_everybody_is_refused() {
    let mut queue = Queue::default();
    let running = started(&queue.request(sync(), (), 1))[0];
    queue.request(Verb::Pause, (), 2);
    let actions = queue.close();
    assert_eq!(
        actions,
        [
            Action::Refuse(vec![2], Refusal::Exiting),
            Action::Interrupt(running)
        ]
    );
    assert_eq!(
        queue.request(Verb::Kill, (), 3),
        [Action::Refuse(vec![3], Refusal::Exiting)]
    );
    assert_eq!(queue.abandon(), [1]);
}

#[test]
fn too_many_are_refused() {
    let mut queue = Queue::default();
    queue.request(sync(), (), 0);
    for caller in 1..200 {
        let actions = queue.request(sync(), (), caller);
        let refused = matches!(actions.as_slice(), [Action::Refuse(_, Refusal::Busy)]);
        assert_eq!(refused, caller as usize >= MOST_WAITING, "{caller}");
    }
}

#[derive(Debug, Clone)]
enum Move {
    Request(Verb),
    /// One of the running operations ends.
    Finish(bool),
}

fn any_move() -> impl Strategy<Value = Move> {
    prop_oneof![
        prop_oneof![
            Just(sync()),
            Just(Verb::Sync {
                boot: "other".into()
            }),
            Just(Verb::Pause),
            Just(Verb::Unpause),
            Just(Verb::Reset),
            Just(Verb::Shutdown),
            Just(Verb::Kill),
            Just(Verb::Delete),
        ]
        .prop_map(Move::Request),
        any::<bool>().prop_map(Move::Finish),
    ]
}

/// What a driver would see.
#[derive(Default)]
struct Seen {
    ordinary: Vec<(Ticket, Verb)>,
    ending: Vec<(Ticket, Verb)>,
    answered: Vec<u32>,
}

impl Seen {
    fn carry_out(&mut self, actions: Vec<Action<(), u32>>) {
        for action in actions {
            match action {
                Action::Start { ticket, verb, .. } if verb.ends() => {
                    self.ending.push((ticket, verb))
                }
                Action::Start { ticket, verb, .. } => self.ordinary.push((ticket, verb)),
                Action::Refuse(callers, _) => self.answered.extend(callers),
                Action::Interrupt(ticket) => {
                    assert!(self.ordinary.iter().any(|(running, _)| *running == ticket));
                }
            }
        }
    }

    fn finish(&mut self, queue: &mut Queue, ending_first: bool) {
        let lane = match (
            ending_first,
            self.ordinary.is_empty(),
            self.ending.is_empty(),
        ) {
            (true, _, false) | (false, true, false) => &mut self.ending,
            _ => &mut self.ordinary,
        };
        if let Some((ticket, _)) = lane.pop() {
            let (callers, actions) = queue.observe_done(ticket);
            self.answered.extend(callers);
            self.carry_out(actions);
        }
    }
}

proptest! {
    #[test]
    fn one_runs_per_lane_and_every_caller_is_answered_once(moves in proptest::collection::vec(any_move(), 0..60)) {
        let mut queue = Queue::default();
        let mut seen = Seen::default();
        let mut asked = 0;
        for one in moves {
            match one {
                Move::Request(verb) => {
                    let ends = verb.ends();
                    let actions = queue.request(verb, (), asked);
                    if ends && seen.ending.is_empty() {
                        prop_assert_eq!(started(&actions).len(), 1, "an end never waits for ordinary work");
                    }
                    seen.carry_out(actions);
                    asked += 1;
                }
                Move::Finish(ending_first) => seen.finish(&mut queue, ending_first),
            }
            prop_assert!(seen.ordinary.len() <= 1);
            prop_assert!(seen.ending.len() <= 1);
        }
        let actions = queue.close();
        seen.carry_out(actions);
        seen.finish(&mut queue, true);
        seen.answered.extend(queue.abandon());
        let distinct: BTreeSet<u32> = seen.answered.iter().copied().collect();
        prop_assert_eq!(distinct.len(), seen.answered.len(), "nobody twice");
        prop_assert_eq!(distinct.len(), asked as usize, "nobody forgotten");
    }
}
