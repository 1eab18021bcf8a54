//! The state machine that decides when a frozen guest is thawed without a request. Pure.
//!
//! ```text
//!            frozen, with a limit               limit
//!   [idle] ────────────────────────▶ [armed] ──────────▶ [thawing] ◀─┐
//!     ▲                                 │                  │  └──────┘ failed: again, after a growing pause
//!     └────────── thawed, ended ────────┴──────────────────┘
//! ```
//! A guest that stays frozen hangs at its next write, so the thaw is repeated until the guest is thawed or has ended.

use std::time::Duration;

/// The pause between two attempts: at first, and at most.
const RETRY_PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(10)];

/// An event that the state machine reacts to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Input {
    /// The file systems are frozen, and are thawed after this time if no thaw is requested before.
    Frozen(Option<Duration>),
    /// A freeze or thaw has failed, and the file systems may still be frozen.
    MayBeFrozen,
    /// The file systems are thawed.
    Thawed,
    /// The guest has ended.
    Ended,
    /// The timer has expired.
    Expired,
}

/// What the caller does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Restart the timer.
    Arm(Duration),
    /// Stop the timer.
    Disarm,
    /// Thaw now, and pass the result as the next input.
    Thaw,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum State {
    #[default]
    Idle,
    Armed,
    Thawing {
        pause: Duration,
    },
}

/// The state machine.
#[derive(Debug, Default)]
pub(super) struct SafetyThaw(State);

impl SafetyThaw {
    /// Takes an input, and returns the next step.
    pub(super) fn observe(&mut self, input: Input) -> Step {
        let (state, step) = match (input, self.0) {
            (Input::Frozen(Some(limit)), _) => (State::Armed, Step::Arm(limit)),
            (Input::Frozen(None) | Input::Thawed | Input::Ended, _) => (State::Idle, Step::Disarm),
            (Input::MayBeFrozen, State::Thawing { pause }) => retry(pause),
            (Input::MayBeFrozen, State::Idle | State::Armed) => retry(RETRY_PAUSES[0]),
            (Input::Expired, State::Idle) => (State::Idle, Step::Disarm),
            (Input::Expired, State::Armed) => (
                State::Thawing {
                    pause: RETRY_PAUSES[0],
                },
                Step::Thaw,
            ),
            (Input::Expired, thawing) => (thawing, Step::Thaw),
        };
        self.0 = state;
        step
    }
}

fn retry(pause: Duration) -> (State, Step) {
    let longer = (pause * 2).min(RETRY_PAUSES[1]);
    (State::Thawing { pause: longer }, Step::Arm(pause))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(300);

    #[test]
    fn thaw_is_retried_until_the_guest_is_thawed() {
        let mut policy = SafetyThaw::default();
        assert_eq!(policy.observe(Input::Frozen(Some(LIMIT))), Step::Arm(LIMIT));
        assert_eq!(policy.observe(Input::Expired), Step::Thaw);
        let mut pauses = Vec::new();
        for _ in 0..6 {
            match policy.observe(Input::MayBeFrozen) {
                Step::Arm(pause) => pauses.push(pause.as_secs()),
                other => unreachable!("{other:?}"),
            }
            assert_eq!(policy.observe(Input::Expired), Step::Thaw);
        }
        assert_eq!(pauses, [1, 2, 4, 8, 10, 10]);
        assert_eq!(policy.observe(Input::Thawed), Step::Disarm);
        assert_eq!(policy.observe(Input::Expired), Step::Disarm, "a late timer");
    }

    #[test]
    fn freeze_without_limit_ends_the_earlier_timer() {
        let mut policy = SafetyThaw::default();
        policy.observe(Input::Frozen(Some(LIMIT)));
        assert_eq!(policy.observe(Input::Frozen(None)), Step::Disarm);
        assert_eq!(policy.observe(Input::Expired), Step::Disarm);
    }

    fn any_input() -> impl Strategy<Value = Input> {
        prop_oneof![
            Just(Input::Frozen(Some(LIMIT))),
            Just(Input::Frozen(None)),
            Just(Input::MayBeFrozen),
            Just(Input::Thawed),
            Just(Input::Ended),
            Just(Input::Expired),
        ]
    }

    proptest! {
        /// While a thaw is required, a timer runs or an attempt is made; otherwise neither.
        #[test]
        fn required_thaw_is_always_pending(inputs in prop::collection::vec(any_input(), 0..40)) {
            let mut policy = SafetyThaw::default();
            let mut is_required = false;
            for input in inputs {
                is_required = match input {
                    Input::Frozen(limit) => limit.is_some(),
                    Input::MayBeFrozen => true,
                    Input::Thawed | Input::Ended => false,
                    Input::Expired => is_required,
                };
                let step = policy.observe(input);
                prop_assert_eq!(step != Step::Disarm, is_required);
            }
        }
    }
}
