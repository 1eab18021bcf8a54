//! When each fact is polled, and when the agent is not asked.

use proptest::prelude::*;

use super::*;

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

const REACHABLE: AgentLink = AgentLink {
    reachable: true,
    session: 1,
};
const UNREACHABLE: AgentLink = AgentLink {
    reachable: false,
    session: 1,
};

/// Runs the schedule on virtual time until `end`, and returns the second and the poll of each run.
fn run(schedule: &mut Schedule, begin: u64, end: u64, outcome: PollOutcome) -> Vec<(u64, Poll)> {
    let mut runs = Vec::new();
    let mut now = seconds(begin);
    while let Some((at, poll)) = schedule.next().filter(|(at, _)| *at < seconds(end)) {
        now = now.max(at);
        runs.push((now.as_secs(), poll));
        schedule.observe_outcome(poll, outcome, now);
    }
    runs
}

fn times_of(runs: &[(u64, Poll)], poll: Poll) -> Vec<u64> {
    let of_poll = runs.iter().filter(|(_, other)| *other == poll);
    of_poll.map(|(at, _)| *at).collect()
}

fn connected_schedule() -> Schedule {
    let mut schedule = Schedule::new(PollIntervals::default());
    schedule.observe_link(REACHABLE, Duration::ZERO);
    schedule
}

#[test]
fn polls_start_at_once_and_slow_down_to_their_intervals() {
    let runs = run(&mut connected_schedule(), 0, 700, PollOutcome::Answered);
    assert_eq!(
        runs.iter()
            .take(6)
            .map(|(_, poll)| *poll)
            .collect::<Vec<_>>(),
        POLLS
    );
    assert_eq!(
        times_of(&runs, Poll::System),
        [0, 10, 30, 70, 150, 270, 390, 510, 630]
    );
    assert_eq!(times_of(&runs, Poll::Agent), [0, 10, 30, 70, 150, 310, 610]);
    assert_eq!(
        times_of(&runs, Poll::Users)
            .iter()
            .take(4)
            .collect::<Vec<_>>(),
        [&0, &10, &20, &30]
    );
    assert_eq!(times_of(&runs, Poll::FreezeStatus).len(), 140, "each 5 s");
}

#[test]
fn no_poll_runs_without_an_agent_or_while_the_guest_is_paused() {
    let mut schedule = Schedule::new(PollIntervals::default());
    assert_eq!(schedule.next(), None);
    schedule.observe_link(REACHABLE, seconds(1));
    run(&mut schedule, 1, 100, PollOutcome::Answered);
    schedule.observe_link(UNREACHABLE, seconds(100));
    assert_eq!(schedule.next(), None);
    schedule.observe_link(REACHABLE, seconds(200));
    let runs = run(&mut schedule, 200, 201, PollOutcome::Answered);
    assert_eq!(runs.len(), POLLS.len(), "all at once when it is resumed");
}

#[test]
fn only_the_freeze_status_of_a_frozen_agent_is_polled() {
    let mut schedule = connected_schedule();
    run(&mut schedule, 0, 5, PollOutcome::Answered);
    schedule.observe_frozen(true);
    let runs = run(&mut schedule, 5, 400, PollOutcome::Answered);
    assert!(!runs.is_empty());
    assert!(runs.iter().all(|(_, poll)| *poll == Poll::FreezeStatus));
    schedule.observe_frozen(false);
    let runs = run(&mut schedule, 400, 401, PollOutcome::Answered);
    assert_eq!(
        runs.len(),
        POLLS.len(),
        "polls that were due meanwhile run at once"
    );
}

#[test]
fn polling_interval_of_a_silent_agent_grows_until_it_answers() {
    let mut schedule = connected_schedule();
    let runs = run(&mut schedule, 0, 300, PollOutcome::Silent);
    let times: Vec<u64> = runs.iter().map(|(at, _)| *at).collect();
    assert_eq!(times, [0, 5, 15, 35, 75, 135, 195, 255]);
    let runs = run(&mut schedule, 300, 330, PollOutcome::Answered);
    assert!(runs.len() > POLLS.len());
    assert_eq!(
        run(&mut schedule, 330, 340, PollOutcome::Silent).len(),
        2,
        "from 5 s again"
    );
}

#[test]
fn agent_that_connects_in_a_loop_is_polled_at_most_once_a_second() {
    let mut schedule = Schedule::new(PollIntervals::default());
    let mut count = 0;
    for session in 1..=1000 {
        let now = Duration::from_millis(session * 10);
        schedule.observe_link(
            AgentLink {
                reachable: true,
                session,
            },
            now,
        );
        while let Some((_, poll)) = schedule.next().filter(|(at, _)| *at <= now) {
            schedule.observe_outcome(poll, PollOutcome::Answered, now);
            count += 1;
        }
    }
    assert!(count <= 11 * POLLS.len(), "{count} in ten seconds");
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Link(bool),
    NewSession,
    Frozen(bool),
    /// Lets time pass, in milliseconds, with an agent that answers or not.
    Pass(u16, bool),
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        any::<bool>().prop_map(Step::Link),
        Just(Step::NewSession),
        any::<bool>().prop_map(Step::Frozen),
        (any::<u16>(), any::<bool>()).prop_map(|(time, answers)| Step::Pass(time, answers)),
    ]
}

proptest! {
    /// In every order of events: no poll runs while the agent is unreachable, only the freeze status is polled while it
    /// is frozen, each poll runs at most once a second, and a reachable agent is polled again within the longest
    /// interval.
    #[test]
    fn rules_hold_in_every_order_of_events(steps in prop::collection::vec(any_step(), 1..60)) {
        let mut schedule = Schedule::new(PollIntervals::default());
        let (mut now, mut link, mut frozen) = (Duration::ZERO, AgentLink::default(), false);
        let mut last: std::collections::HashMap<Poll, Duration> = std::collections::HashMap::new();
        for step in steps {
            match step {
                Step::Link(reachable) => {
                    link.reachable = reachable;
                    schedule.observe_link(link, now);
                }
                Step::NewSession => {
                    link.session += 1;
                    schedule.observe_link(link, now);
                }
                Step::Frozen(now_frozen) => {
                    frozen = now_frozen;
                    schedule.observe_frozen(frozen);
                }
                Step::Pass(milliseconds, answers) => {
                    let end = now + Duration::from_millis(milliseconds.into());
                    while let Some((at, poll)) = schedule.next().filter(|(at, _)| *at <= end) {
                        now = now.max(at);
                        prop_assert!(link.reachable);
                        prop_assert!(!frozen || poll == Poll::FreezeStatus);
                        if let Some(before) = last.insert(poll, now) {
                            prop_assert!(now >= before + MIN_POLL_GAP, "{poll:?} at {before:?} and {now:?}");
                        }
                        let outcome = if answers { PollOutcome::Answered } else { PollOutcome::Silent };
                        schedule.observe_outcome(poll, outcome, now);
                    }
                    now = end;
                }
            }
            if link.reachable {
                let (at, _) = schedule.next().expect("a reachable agent is polled again");
                prop_assert!(at <= now + seconds(300));
            } else {
                prop_assert_eq!(schedule.next(), None);
            }
        }
    }
}
