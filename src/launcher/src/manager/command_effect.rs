//! Whether a command that succeeded changed the VM.

/// The result of a successful command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandEffect {
    /// The command changed the VM.
    Changed,
    /// The VM was already in the requested state.
    AlreadySo,
}

impl CommandEffect {
    /// The effect of two steps: whether either changed the VM.
    #[must_use]
    pub(super) fn or(self, other: CommandEffect) -> CommandEffect {
        match self {
            CommandEffect::Changed => CommandEffect::Changed,
            CommandEffect::AlreadySo => other,
        }
    }
}
