//! What a caller gets for a command that succeeded.

/// The result of a successful command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The command changed the VM.
    Done,
    /// The VM was already in the requested state.
    NothingToDo,
}
