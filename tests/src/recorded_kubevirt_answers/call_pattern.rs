//! A pattern that selects the recorded calls to which a rule applies.

use std::fmt::{self, Display, Formatter};

use super::RecordedCall;

/// One call of a topic, or all calls of a method.
#[derive(Clone, Copy, Debug)]
pub(super) struct CallPattern {
    call: Option<(&'static str, usize)>,
    method: &'static str,
}

/// The call at `index` in a topic, which must be of this method.
pub(super) const fn call(topic: &'static str, index: usize, method: &'static str) -> CallPattern {
    CallPattern {
        call: Some((topic, index)),
        method,
    }
}

/// All calls of a method.
pub(super) const fn every_call_of(method: &'static str) -> CallPattern {
    CallPattern { call: None, method }
}

impl CallPattern {
    /// Whether the pattern selects this call.
    pub(super) fn matches(&self, call: &RecordedCall) -> bool {
        let is_call = self
            .call
            .is_none_or(|(topic, index)| topic == call.topic && index == call.index);
        is_call && self.method == call.method
    }
}

impl Display for CallPattern {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        match self.call {
            Some((topic, index)) => write!(formatter, "{topic} call {index}: {}", self.method),
            None => write!(formatter, "every {}", self.method),
        }
    }
}
