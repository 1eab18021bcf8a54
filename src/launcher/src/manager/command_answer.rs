//! What a caller gets for a command that succeeded.

/// The result of a successful command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The command changed the VM.
    Done,
    /// The VM was already in the requested state.
    NothingToDo,
}

impl Answer {
    /// The answer of two steps: whether either changed the VM.
    #[must_use]
    pub(super) fn or(self, other: Answer) -> Answer {
        match self {
            Answer::Done => Answer::Done,
            Answer::NothingToDo => other,
        }
    }
}
