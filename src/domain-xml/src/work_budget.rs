//! A limit on the work of one operation on untrusted documents.

use std::cell::Cell;
use std::fmt;

/// Steps between two checks of the time limit.
const STEPS_PER_CHECK: u64 = 4096;

/// Bytes of text for each step.
const BYTES_PER_STEP: u64 = 16;

/// The work that an operation on hostile documents may do, in steps and in time. One step is about one element,
/// attribute or pattern that is visited.
///
/// A budget that is used up stays so: operations then return early, and their results mean nothing. Ask
/// [`Budget::exhausted`] before using a result.
pub struct Budget<'a> {
    left: Cell<u64>,
    until_check: Cell<u64>,
    is_late: Option<Box<dyn Fn() -> bool + 'a>>,
    exhausted: Cell<Option<Exhaustion>>,
}

/// What a [`Budget`] ran out of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exhaustion {
    /// Steps.
    Steps,
    /// Time.
    Time,
}

impl fmt::Debug for Budget<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Budget")
            .field("left", &self.left)
            .field("exhausted", &self.exhausted)
            .finish_non_exhaustive()
    }
}

impl<'a> Budget<'a> {
    /// An unlimited number of steps, for trusted documents.
    #[must_use]
    pub fn unlimited() -> Self {
        Self::of_steps(u64::MAX)
    }

    /// A number of steps.
    #[must_use]
    pub fn of_steps(steps: u64) -> Self {
        Self {
            left: Cell::new(steps),
            until_check: Cell::new(0),
            is_late: None,
            exhausted: Cell::new(None),
        }
    }

    /// Adds a time limit: the budget is also used up when `is_late` returns true. It is called every few thousand
    /// steps.
    #[must_use]
    pub fn until(self, is_late: impl Fn() -> bool + 'a) -> Self {
        Self {
            is_late: Some(Box::new(is_late)),
            ..self
        }
    }

    /// Spends steps. False once the budget is used up.
    pub fn spend(&self, steps: u64) -> bool {
        if self.exhausted.get().is_some() {
            return false;
        }
        match self.left.get().checked_sub(steps) {
            Some(left) => self.left.set(left),
            None => {
                self.exhausted.set(Some(Exhaustion::Steps));
                return false;
            }
        }
        match self.until_check.get().checked_sub(steps) {
            Some(left) => self.until_check.set(left),
            None => self.check_time(),
        }
        self.exhausted.get().is_none()
    }

    /// Spends the steps for reading, or searching in, so much text. False once the budget is used up.
    pub fn spend_text(&self, bytes: usize) -> bool {
        self.spend(bytes as u64 / BYTES_PER_STEP)
    }

    /// What the budget ran out of, if it is used up. Checks the time limit, too.
    pub fn exhausted(&self) -> Option<Exhaustion> {
        if self.exhausted.get().is_none() {
            self.check_time();
        }
        self.exhausted.get()
    }

    fn check_time(&self) {
        self.until_check.set(STEPS_PER_CHECK);
        if self.is_late.as_ref().is_some_and(|is_late| is_late()) {
            self.exhausted.set(Some(Exhaustion::Time));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_that_is_used_up_stays_so() {
        let budget = Budget::of_steps(10);
        assert!(budget.spend(10) && budget.exhausted().is_none());
        assert!(!budget.spend(1));
        assert!(!budget.spend(0));
        assert_eq!(budget.exhausted(), Some(Exhaustion::Steps));
    }

    #[test]
    fn the_time_limit_is_checked_between_steps() {
        let late = Cell::new(false);
        let budget = Budget::unlimited().until(|| late.get());
        assert!(budget.spend(1));
        late.set(true);
        let spent = (0..).find(|_| !budget.spend(1));
        assert!(spent.is_some_and(|steps| steps <= STEPS_PER_CHECK));
        assert_eq!(budget.exhausted(), Some(Exhaustion::Time));
        assert_eq!(
            Budget::unlimited().until(|| true).exhausted(),
            Some(Exhaustion::Time)
        );
    }
}
