//! Which command runs when. Pure: knows neither libvirt nor tokio, and takes its rules from `command_rules::RULES`.
//!
//! ```text
//!              ┌─▶ [running] ──done──▶ callers answered
//!   command ───┤        ▲
//!   (admit)    ├─▶ [waiting] ── a kill or delete comes ──▶ refused
//!              └─▶ joins, replaces or follows one of these, or is denied
//! ```
//! A command waits while another occupies a lane that it needs, or waits for such a lane before it. A kill or
//! delete waits only for another kill or delete: it interrupts what runs, refuses what waits, and holds every lane.
//!
//! virt-handler gives up on a call after 20 s and calls again. That must neither cut a command short nor run it
//! twice, so equal commands share one answer. Every caller is answered exactly once.

use super::command::Command;
use super::command_id::CommandId;
use super::command_refusal::CommandRefusal;
use super::command_rules::{Condition, Kind, Lane, Repeat};
use super::incoming_stage::IncomingStage;
use super::vm_state::{Phase, Role, VmState};

/// What becomes of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Admission {
    /// It runs now.
    Start,
    /// It runs when its lanes are free.
    Wait,
    /// It shares that command's answer.
    Join(CommandId),
    /// It takes the place of that command, which waits, and its callers.
    Replace(CommandId),
    /// It runs after that boot if the boot succeeds; else it shares the boot's failure.
    Follow(CommandId),
    /// It is refused.
    Deny(CommandRefusal),
}

/// What the driver has to do.
#[derive(Debug)]
pub(super) enum Action<C> {
    /// Carry the command out.
    Start(CommandId, Command),
    /// Tell the running command to stop at its next safe point.
    Interrupt(CommandId),
    /// Answer these callers now.
    Refuse(Vec<C>, CommandRefusal),
}

/// A command that waits or runs.
struct Entry<C> {
    id: CommandId,
    command: Command,
    running: bool,
    /// It is a sync that starts the VM.
    boots: bool,
    /// The boot after whose success this command runs.
    follows: Option<CommandId>,
    callers: Vec<C>,
}

impl<C> Entry<C> {
    fn kind(&self) -> Kind {
        self.command.kind()
    }

    fn holds_any(&self, lanes: &[Lane]) -> bool {
        let held = self.kind().rule().holds;
        held.iter().any(|lane| lanes.contains(lane))
    }
}

/// The running and waiting commands, in the order in which they were requested. `C` is a caller to answer.
pub(super) struct Queue<C> {
    entries: Vec<Entry<C>>,
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

/// More than virt-handler has in flight by two orders of magnitude.
const MOST_WAITING: usize = 1024;

/// What becomes of a command in this state of the VM and behind these commands.
pub(super) fn admit<C>(command: &Command, state: &VmState, queue: &Queue<C>) -> Admission {
    let rule = command.kind().rule();
    if queue.closed {
        return Admission::Deny(CommandRefusal::Exiting);
    }
    if queue.callers() >= MOST_WAITING && !command.kind().ends_vm() {
        return Admission::Deny(CommandRefusal::Busy);
    }
    let denied = rule.denied_while.iter();
    if let Some(refusal) = denied.filter_map(|one| refusal(*one, state)).next() {
        return Admission::Deny(refusal);
    }
    let repeated = match rule.repeat {
        Repeat::JoinLast => queue.join_last(command),
        Repeat::JoinEqual => queue.join_equal(command),
        Repeat::ShareOrFollow => queue.join_same(command),
    };
    match repeated {
        Some(admission) => admission,
        None if queue.is_free(command.kind(), queue.entries.len()) => Admission::Start,
        None => Admission::Wait,
    }
}

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
            && state.incoming_migration != IncomingStage::Running)
            .then_some(CommandRefusal::NotArrived),
    }
}

impl<C> Queue<C> {
    /// Takes a command in.
    pub(super) fn request(
        &mut self,
        id: CommandId,
        command: Command,
        caller: C,
        state: &VmState,
    ) -> Vec<Action<C>> {
        match admit(&command, state, self) {
            Admission::Start | Admission::Wait => self.enter(id, command, vec![caller], state),
            Admission::Join(other) => {
                self.add_caller(other, caller);
                Vec::new()
            }
            Admission::Replace(other) => {
                if let Some(entry) = self.entry(other) {
                    entry.id = id;
                    entry.command = command;
                    entry.callers.push(caller);
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

    /// A command ended: the callers of its result, and what to do next.
    pub(super) fn observe_done(
        &mut self,
        id: CommandId,
        succeeded: bool,
        state: &VmState,
    ) -> (Vec<C>, Vec<Action<C>>) {
        let at = self.entries.iter().position(|entry| entry.id == id);
        let Some(at) = at else {
            return (Vec::new(), Vec::new());
        };
        let mut callers = self.entries.remove(at).callers;
        if let Some(at) = self.follower_of(id) {
            if succeeded {
                self.entries[at].follows = None;
            } else {
                // virt-handler gets the failure and asks again.
                callers.extend(self.entries.remove(at).callers);
            }
        }
        (callers, self.start_ready(state))
    }

    /// The launcher ends: no command starts any more, and waiting commands are refused. Running commands are
    /// interrupted; their callers are answered when they end.
    pub(super) fn close(&mut self) -> Vec<Action<C>> {
        self.closed = true;
        let mut actions = self.refuse_waiting(CommandRefusal::Exiting, |_| true);
        actions.extend(self.interrupt_running());
        actions
    }

    /// Everybody still waiting for an answer, when the launcher cannot wait any longer.
    pub(super) fn abandon(&mut self) -> Vec<C> {
        self.closed = true;
        let entries = std::mem::take(&mut self.entries);
        entries.into_iter().flat_map(|one| one.callers).collect()
    }

    fn enter(
        &mut self,
        id: CommandId,
        command: Command,
        callers: Vec<C>,
        state: &VmState,
    ) -> Vec<Action<C>> {
        let mut actions = Vec::new();
        if command.kind().ends_vm() {
            actions = self.refuse_waiting(CommandRefusal::Ending, |kind| !kind.ends_vm());
            actions.extend(self.interrupt_running());
        }
        self.entries.push(Entry {
            id,
            command,
            running: false,
            boots: false,
            follows: None,
            callers,
        });
        actions.extend(self.start_ready(state));
        actions
    }

    /// Puts a sync behind the boot, in the place of another that waits there, and of its callers.
    fn follow(&mut self, id: CommandId, command: Command, caller: C, boot: CommandId) {
        match self.follower_of(boot) {
            Some(at) => {
                let entry = &mut self.entries[at];
                entry.id = id;
                entry.command = command;
                entry.callers.push(caller);
            }
            None => self.entries.push(Entry {
                id,
                command,
                running: false,
                boots: false,
                follows: Some(boot),
                callers: vec![caller],
            }),
        }
    }

    fn join_last(&self, command: &Command) -> Option<Admission> {
        let rule = command.kind().rule();
        let mut line = self.entries.iter().rev();
        let last = line.find(|entry| entry.holds_any(rule.holds))?;
        (last.kind() == command.kind()).then_some(Admission::Join(last.id))
    }

    fn join_same(&self, command: &Command) -> Option<Admission> {
        let mut entries = self.entries.iter();
        let same = entries.find(|one| one.command.is_equal(command))?;
        Some(Admission::Join(same.id))
    }

    fn join_equal(&self, command: &Command) -> Option<Admission> {
        let same_kind = |entry: &&Entry<C>| entry.kind() == command.kind();
        let running = self
            .entries
            .iter()
            .find(|one| one.running && same_kind(one));
        let waiting = (self.entries.iter())
            .find(|one| !one.running && one.follows.is_none() && same_kind(one));
        let boot = running.filter(|one| one.boots && one.command.boot() == command.boot());
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

    /// Whether a command at that position finds its lanes free.
    fn is_free(&self, kind: Kind, position: usize) -> bool {
        let needed = kind.rule().waits_for;
        !self.entries.iter().enumerate().any(|(at, entry)| {
            let is_ahead = entry.running || at < position;
            is_ahead && at != position && entry.holds_any(needed)
        })
    }

    fn start_ready(&mut self, state: &VmState) -> Vec<Action<C>> {
        let mut actions = Vec::new();
        for at in 0..self.entries.len() {
            let entry = &self.entries[at];
            let waits = !entry.running && entry.follows.is_none();
            if waits && !self.closed && self.is_free(entry.kind(), at) {
                let entry = &mut self.entries[at];
                entry.running = true;
                entry.boots = entry.kind() == Kind::Sync
                    && matches!(state.phase, Phase::Absent | Phase::Defined);
                actions.push(Action::Start(entry.id, entry.command.clone()));
            }
        }
        actions
    }

    fn refuse_waiting(
        &mut self,
        refusal: CommandRefusal,
        concerns: impl Fn(Kind) -> bool,
    ) -> Vec<Action<C>> {
        let refused = |entry: &mut Entry<C>| !entry.running && concerns(entry.kind());
        let entries = self.entries.extract_if(.., refused);
        let callers: Vec<C> = entries.flat_map(|one| one.callers).collect();
        match callers.is_empty() {
            true => Vec::new(),
            false => vec![Action::Refuse(callers, refusal)],
        }
    }

    fn interrupt_running(&self) -> impl Iterator<Item = Action<C>> + use<C> {
        let running = self.entries.iter();
        let running = running.filter(|one| one.running && !one.kind().ends_vm());
        let ids: Vec<_> = running.map(|one| one.id).collect();
        ids.into_iter().map(Action::Interrupt)
    }

    /// The position of the sync that is carried out after that boot.
    fn follower_of(&self, boot: CommandId) -> Option<usize> {
        let mut entries = self.entries.iter();
        entries.position(|one| one.follows == Some(boot))
    }

    fn callers(&self) -> usize {
        self.entries.iter().map(|one| one.callers.len()).sum()
    }

    fn entry(&mut self, id: CommandId) -> Option<&mut Entry<C>> {
        self.entries.iter_mut().find(|entry| entry.id == id)
    }

    fn add_caller(&mut self, id: CommandId, caller: C) {
        if let Some(entry) = self.entry(id) {
            entry.callers.push(caller);
        }
    }
}

#[cfg(test)]
mod tests;
