//! The queue of running and waiting commands, which decides when a command runs. Pure: it knows neither libvirt nor
//! tokio, and takes its rules from `command_rules::RULES`.
//!
//! ```text
//!              ┌─▶ [running] ──done──▶ callers answered
//!   command ───┤        ▲
//!   (admit)    ├─▶ [waiting] ── a kill or delete comes ──▶ refused
//!              └─▶ joins, replaces or follows one of these, or is denied
//! ```
//! A command waits while a running command, or one that was requested before it, holds a resource that it needs. A kill
//! or delete waits only for another kill or delete: it interrupts the running commands, refuses the waiting ones, and
//! no other command starts while it runs.
//!
//! virt-handler gives up on a call after 20 s and calls again. The second call must neither end the command early nor
//! run it twice, so equal commands share one answer. Every caller is answered exactly once.

use super::command::{Command, Condition, Kind, Repeat, Resource};
use super::command_error::CommandRefusal;
use super::command_id::CommandId;
use super::incoming_migration::IncomingMigrationStage;
use super::vm_phase::{Phase, Role, VmState};

/// What the driver has to do next.
#[derive(Debug)]
pub(super) enum Action<C> {
    /// Run the command.
    Start(CommandId, Command),
    /// Tell the running command to stop at its next safe point.
    Interrupt(CommandId),
    /// Answer these callers with a refusal.
    Refuse(Vec<C>, CommandRefusal),
}

/// The running and waiting commands, in the order of their requests. `C` is a caller that waits for an answer.
pub(super) struct Queue<C> {
    entries: Vec<QueuedCommand<C>>,
    closed: bool,
}

impl<C> Default for Queue<C> {
    fn default() -> Self {
        Queue {
            entries: Vec::new(),
            closed: false,
        }
    }
}

/// The maximum number of callers that wait for an answer: a hundred times what virt-handler has in flight.
const MAX_CALLERS: usize = 1024;

impl<C> Queue<C> {
    /// Takes in a command: starts, queues, joins or refuses it.
    pub(super) fn request(
        &mut self,
        id: CommandId,
        command: Command,
        caller: C,
        state: &VmState,
    ) -> Vec<Action<C>> {
        match admit(&command, state, self) {
            Admission::Start | Admission::Wait => self.enter(id, command, caller, state),
            Admission::Join(other) => {
                self.add_caller(other, caller);
                Vec::new()
            }
            Admission::Replace(other) => {
                if let Some(entry) = self.entry(other) {
                    entry.replace(id, command, caller);
                }
                Vec::new()
            }
            Admission::Follow(boot) => {
                self.follow(id, command, caller, boot);
                Vec::new()
            }
            Admission::Deny(refusal) => vec![Action::Refuse(vec![caller], refusal)],
        }
    }

    /// Removes a command that has ended. Returns the callers to answer with its result, and what to do next.
    pub(super) fn observe_done(
        &mut self,
        id: CommandId,
        succeeded: bool,
        state: &VmState,
    ) -> (Vec<C>, Vec<Action<C>>) {
        let position = self.entries.iter().position(|entry| entry.id == id);
        let Some(position) = position else {
            return (Vec::new(), Vec::new());
        };
        let mut callers = self.entries.remove(position).callers;
        if let Some(follower) = self.follower_of(id) {
            if succeeded {
                self.entries[follower].follows = None;
            } else {
                // virt-handler gets the failure and asks again.
                callers.extend(self.entries.remove(follower).callers);
            }
        }
        (callers, self.start_ready(state))
    }

    /// Closes the queue because the launcher ends: no command starts any more, waiting commands are refused, and
    /// running ones are interrupted. The callers of running commands are answered when these end.
    pub(super) fn close(&mut self) -> Vec<Action<C>> {
        self.closed = true;
        let mut actions = self.refuse_waiting(CommandRefusal::Exiting, |_| true);
        actions.extend(self.interrupt_running());
        actions
    }

    /// Removes all commands, and returns the callers that still wait for an answer.
    pub(super) fn abandon(&mut self) -> Vec<C> {
        self.closed = true;
        let entries = std::mem::take(&mut self.entries);
        entries
            .into_iter()
            .flat_map(|entry| entry.callers)
            .collect()
    }

    fn enter(
        &mut self,
        id: CommandId,
        command: Command,
        caller: C,
        state: &VmState,
    ) -> Vec<Action<C>> {
        let mut actions = Vec::new();
        if command.kind().ends_vm() {
            actions = self.refuse_waiting(CommandRefusal::Ending, |kind| !kind.ends_vm());
            actions.extend(self.interrupt_running());
        }
        self.entries
            .push(QueuedCommand::waiting(id, command, None, caller));
        actions.extend(self.start_ready(state));
        actions
    }

    /// Lets a sync run after the boot. It replaces a sync that waits for the same boot, and takes over its callers.
    fn follow(&mut self, id: CommandId, command: Command, caller: C, boot: CommandId) {
        match self.follower_of(boot) {
            Some(follower) => self.entries[follower].replace(id, command, caller),
            None => self
                .entries
                .push(QueuedCommand::waiting(id, command, Some(boot), caller)),
        }
    }

    /// Whether the resources of a command at this position of the queue are free.
    fn is_free(&self, kind: Kind, position: usize) -> bool {
        let needed = kind.rule().waits_for;
        !self.entries.iter().enumerate().any(|(index, entry)| {
            let is_ahead = entry.running || index < position;
            is_ahead && index != position && entry.holds_any(needed)
        })
    }

    fn start_ready(&mut self, state: &VmState) -> Vec<Action<C>> {
        let mut actions = Vec::new();
        for index in 0..self.entries.len() {
            let entry = &self.entries[index];
            let waits = !entry.running && entry.follows.is_none();
            if waits && !self.closed && self.is_free(entry.kind(), index) {
                let entry = &mut self.entries[index];
                entry.running = true;
                entry.is_boot = entry.kind() == Kind::Sync
                    && matches!(state.phase, Phase::Absent | Phase::Defined);
                actions.push(Action::Start(entry.id, entry.command.clone()));
            }
        }
        actions
    }

    fn refuse_waiting(
        &mut self,
        refusal: CommandRefusal,
        is_refused: impl Fn(Kind) -> bool,
    ) -> Vec<Action<C>> {
        let refused = |entry: &mut QueuedCommand<C>| !entry.running && is_refused(entry.kind());
        let entries = self.entries.extract_if(.., refused);
        let callers: Vec<C> = entries.flat_map(|entry| entry.callers).collect();
        match callers.is_empty() {
            true => Vec::new(),
            false => vec![Action::Refuse(callers, refusal)],
        }
    }

    fn interrupt_running(&self) -> impl Iterator<Item = Action<C>> + use<C> {
        let running = self.entries.iter();
        let running = running.filter(|entry| entry.running && !entry.kind().ends_vm());
        let ids: Vec<_> = running.map(|entry| entry.id).collect();
        ids.into_iter().map(Action::Interrupt)
    }

    /// The position of the sync that runs after that boot.
    fn follower_of(&self, boot: CommandId) -> Option<usize> {
        let mut entries = self.entries.iter();
        entries.position(|entry| entry.follows == Some(boot))
    }

    fn caller_count(&self) -> usize {
        self.entries.iter().map(|entry| entry.callers.len()).sum()
    }

    fn entry(&mut self, id: CommandId) -> Option<&mut QueuedCommand<C>> {
        self.entries.iter_mut().find(|entry| entry.id == id)
    }

    fn add_caller(&mut self, id: CommandId, caller: C) {
        if let Some(entry) = self.entry(id) {
            entry.callers.push(caller);
        }
    }
}

/// A waiting or running command.
struct QueuedCommand<C> {
    id: CommandId,
    command: Command,
    running: bool,
    /// Whether the command is a running sync that starts the VM.
    is_boot: bool,
    /// The boot after which this command runs, if that boot succeeds.
    follows: Option<CommandId>,
    callers: Vec<C>,
}

impl<C> QueuedCommand<C> {
    fn kind(&self) -> Kind {
        self.command.kind()
    }

    /// A waiting command.
    fn waiting(id: CommandId, command: Command, follows: Option<CommandId>, caller: C) -> Self {
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
    fn replace(&mut self, id: CommandId, command: Command, caller: C) {
        self.id = id;
        self.command = command;
        self.callers.push(caller);
    }

    /// Whether the command holds any of these resources.
    fn holds_any(&self, resources: &[Resource]) -> bool {
        let held = self.kind().rule().holds;
        held.iter().any(|resource| resources.contains(resource))
    }
}

/// What happens to a requested command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Admission {
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
fn admit<C>(command: &Command, state: &VmState, queue: &Queue<C>) -> Admission {
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
fn refusal(condition: Condition, state: &VmState) -> Option<CommandRefusal> {
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

#[cfg(test)]
mod tests;
