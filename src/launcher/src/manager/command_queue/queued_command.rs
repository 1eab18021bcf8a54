//! A command in the queue.

use super::super::command::Command;
use super::super::command_id::CommandId;
use super::super::command_rules::{Kind, Resource};

/// A waiting or running command.
pub(super) struct QueuedCommand<C> {
    pub(super) id: CommandId,
    pub(super) command: Command,
    pub(super) running: bool,
    /// Whether the command is a running sync that starts the VM.
    pub(super) is_boot: bool,
    /// The boot after which this command runs, if that boot succeeds.
    pub(super) follows: Option<CommandId>,
    pub(super) callers: Vec<C>,
}

impl<C> QueuedCommand<C> {
    pub(super) fn kind(&self) -> Kind {
        self.command.kind()
    }

    /// A waiting command.
    pub(super) fn waiting(
        id: CommandId,
        command: Command,
        follows: Option<CommandId>,
        caller: C,
    ) -> Self {
        QueuedCommand {
            id,
            command,
            running: false,
            is_boot: false,
            follows,
            callers: vec![caller],
        }
    }

    /// Puts another command in the place of this waiting one, whose callers get the other's answer.
    pub(super) fn replace(&mut self, id: CommandId, command: Command, caller: C) {
        self.id = id;
        self.command = command;
        self.callers.push(caller);
    }

    /// Whether the command holds any of these resources.
    pub(super) fn holds_any(&self, resources: &[Resource]) -> bool {
        let held = self.kind().rule().holds;
        held.iter().any(|resource| resources.contains(resource))
    }
}
