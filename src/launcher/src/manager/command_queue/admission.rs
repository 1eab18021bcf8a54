//! The rules that start, join, replace, queue or deny a command.

use super::super::command::Command;
use super::super::command_id::CommandId;
use super::super::command_refusal::CommandRefusal;
use super::super::command_rules::{Condition, Repeat};
use super::super::incoming_migration_stage::IncomingMigrationStage;
use super::super::vm_phase_and_migration_role::{Phase, Role, VmState};
use super::queued_command::QueuedCommand;
use super::{MAX_CALLERS, Queue};

/// What happens to a requested command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Admission {
    /// The command starts now.
    Start,
    /// The command waits until its resources are free.
    Wait,
    /// The command shares the answer of this other command.
    Join(CommandId),
    /// The command replaces this other command, which waits, and takes over its callers.
    Replace(CommandId),
    /// The command runs after this boot if the boot succeeds; otherwise it shares the boot's error.
    Follow(CommandId),
    /// The command is refused.
    Deny(CommandRefusal),
}

/// Decides what happens to a command in this state of the VM, behind the commands of the queue.
pub(super) fn admit<C>(command: &Command, state: &VmState, queue: &Queue<C>) -> Admission {
    let rule = command.kind().rule();
    if queue.closed {
        return Admission::Deny(CommandRefusal::Exiting);
    }
    if queue.caller_count() >= MAX_CALLERS && !command.kind().ends_vm() {
        return Admission::Deny(CommandRefusal::Busy);
    }
    let mut conditions = rule.denied_while.iter();
    if let Some(refusal) = conditions.find_map(|condition| refusal(*condition, state)) {
        return Admission::Deny(refusal);
    }
    let repeated = match rule.repeat {
        Repeat::JoinLast => queue.join_last(command),
        Repeat::JoinOrReplace => queue.join_or_replace(command),
        Repeat::JoinOrQueue => queue.join_equal(command),
        Repeat::JoinOrRefuse => queue.join_or_refuse(command),
    };
    match repeated {
        Some(admission) => admission,
        None if queue.is_free(command.kind(), queue.entries.len()) => Admission::Start,
        None => Admission::Wait,
    }
}

/// The refusal of a command that is denied under this condition, if the condition holds.
pub(super) fn refusal(condition: Condition, state: &VmState) -> Option<CommandRefusal> {
    match condition {
        Condition::StartUnreported => state
            .start_unreported
            .then_some(CommandRefusal::StartUnreported),
        Condition::Gone => (state.phase == Phase::Gone).then_some(CommandRefusal::Gone),
        Condition::MigratesAway => {
            (state.role == Role::Source).then_some(CommandRefusal::MigratesAway)
        }
        Condition::AwaitsMigration => {
            (state.role == Role::Target).then_some(CommandRefusal::AwaitsMigration)
        }
        Condition::NotArrived => (state.role == Role::Target
            && state.incoming_migration != IncomingMigrationStage::Running)
            .then_some(CommandRefusal::NotArrived),
    }
}

impl<C> Queue<C> {
    fn join_last(&self, command: &Command) -> Option<Admission> {
        let last = self.last_of_same_kind(command)?;
        Some(Admission::Join(last.id))
    }

    fn join_or_refuse(&self, command: &Command) -> Option<Admission> {
        let last = self.last_of_same_kind(command)?;
        Some(match last.command.is_equal(command) {
            true => Admission::Join(last.id),
            false => Admission::Deny(CommandRefusal::OtherArguments),
        })
    }

    /// The last command that holds one of the resources of `command`, if both are of the same kind.
    fn last_of_same_kind(&self, command: &Command) -> Option<&QueuedCommand<C>> {
        let rule = command.kind().rule();
        let mut newest_first = self.entries.iter().rev();
        let last = newest_first.find(|entry| entry.holds_any(rule.holds))?;
        (last.kind() == command.kind()).then_some(last)
    }

    fn join_equal(&self, command: &Command) -> Option<Admission> {
        let mut entries = self.entries.iter();
        let equal = entries.find(|entry| entry.command.is_equal(command))?;
        Some(Admission::Join(equal.id))
    }

    fn join_or_replace(&self, command: &Command) -> Option<Admission> {
        let same_kind = |entry: &&QueuedCommand<C>| entry.kind() == command.kind();
        let running = self
            .entries
            .iter()
            .find(|entry| entry.running && same_kind(entry));
        let waiting = (self.entries.iter())
            .find(|entry| !entry.running && entry.follows.is_none() && same_kind(entry));
        let boot = running.filter(|entry| {
            entry.is_boot && entry.command.synced_vmi_uid() == command.synced_vmi_uid()
        });
        let follower = boot.and_then(|boot| self.follower_of(boot.id));
        match (boot, waiting, running) {
            (Some(boot), ..) if follower.is_none() && boot.command.is_equal(command) => {
                Some(Admission::Join(boot.id))
            }
            (Some(boot), _, _) => Some(Admission::Follow(boot.id)),
            (None, Some(waiting), _) if waiting.command.is_equal(command) => {
                Some(Admission::Join(waiting.id))
            }
            (None, Some(waiting), _) => Some(Admission::Replace(waiting.id)),
            (None, None, Some(running)) if running.command.is_equal(command) => {
                Some(Admission::Join(running.id))
            }
            _ => None,
        }
    }
}
