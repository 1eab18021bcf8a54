//! The result of a successful command.

/// The result of a successful command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandSuccess {
    /// The command changed the VM.
    Changed,
    /// The VM was already in the requested state.
    Unchanged,
}

impl CommandSuccess {
    /// The result of two steps: `Changed` if either changed the VM.
    #[must_use]
    pub(super) fn or(self, other: CommandSuccess) -> CommandSuccess {
        match self {
            CommandSuccess::Changed => CommandSuccess::Changed,
            CommandSuccess::Unchanged => other,
        }
    }
}
