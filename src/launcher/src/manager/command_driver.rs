//! The driver task: admission decides which command runs when, the driver starts and interrupts commands.
//!
//! Each command runs as a task of its own, so that the driver can receive a kill at any time, and so that a command
//! continues when its caller goes away.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{Id, JoinError, JoinSet};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, Span};

use super::command::{Command, CommandContext};
use super::command_error::{CommandError, CommandRefusal};
use super::command_id::CommandId;
use super::command_queue::{Action, Queue};
use super::command_success::CommandSuccess;
use super::vm_context::VmContext;
use super::vm_phase::VmState;
use crate::vm_events::VmEvent;

/// The outcome of a command, shared by its callers.
pub type CommandResult = Result<CommandSuccess, Arc<CommandError>>;

type Caller = oneshot::Sender<CommandResult>;

/// A message from the manager's handle to the driver.
pub(super) enum Message {
    /// Run a command, and send its result to `caller`.
    Request {
        id: CommandId,
        command: Command,
        caller: Caller,
    },
    /// Refuse further requests and the waiting commands, and interrupt the running ones.
    Close,
}

/// A running command.
struct RunningCommand {
    id: CommandId,
    interrupt: CancellationToken,
    ends_vm: bool,
}

/// The driver. It ends when it is closed or its last handle is dropped, and no command runs.
pub(super) struct Driver {
    vm: Arc<VmContext>,
    inbox: mpsc::Receiver<Message>,
    queue: Queue<Caller>,
    tasks: JoinSet<CommandResult>,
    running: HashMap<Id, RunningCommand>,
    /// The number of running commands other than kill and delete.
    other_commands: watch::Sender<usize>,
    closed: bool,
}

impl Driver {
    /// A driver for the VM that receives its messages from `inbox`.
    pub(super) fn new(vm: Arc<VmContext>, inbox: mpsc::Receiver<Message>) -> Driver {
        Driver {
            vm,
            inbox,
            queue: Queue::default(),
            tasks: JoinSet::new(),
            running: HashMap::new(),
            other_commands: watch::Sender::new(0),
            closed: false,
        }
    }

    /// Runs commands until the driver is closed and no command runs.
    pub(super) async fn run(mut self) {
        while !(self.closed && self.tasks.is_empty()) {
            tokio::select! {
                message = self.inbox.recv(), if !self.closed => match message {
                    Some(Message::Request { id, command, caller }) => self.request(id, command, caller),
                    Some(Message::Close) | None => self.close(),
                },
                Some(ended) = self.tasks.join_next_with_id() => self.handle_end(ended),
            }
        }
        for caller in self.queue.abandon() {
            let _ = caller.send(refusal(CommandRefusal::Exiting));
        }
    }

    fn request(&mut self, id: CommandId, command: Command, caller: Caller) {
        // virt-handler has just sent a request, so it can be notified; it may close its socket after the response.
        self.vm.notifier.retry_now();
        let state = self.state();
        let actions = self.queue.request(id, command, caller, &state);
        self.carry_out(actions);
    }

    fn state(&self) -> VmState {
        VmState {
            phase: *self.vm.phase.borrow(),
            role: self.vm.role(),
            incoming_migration: *self.vm.incoming_migration.borrow(),
            start_unreported: self.vm.start_notification.is_unreported(),
        }
    }

    fn close(&mut self) {
        self.closed = true;
        let actions = self.queue.close();
        self.carry_out(actions);
    }

    fn carry_out(&mut self, actions: Vec<Action<Caller>>) {
        for action in actions {
            match action {
                Action::Start(id, command) => self.start(id, command),
                Action::Interrupt(id) => self.interrupt(id),
                Action::Refuse(callers, reason) => self.refuse(callers, reason),
            }
        }
    }

    fn start(&mut self, id: CommandId, command: Command) {
        let kind = command.kind();
        let span = tracing::info_span!("command", request = id.0);
        let interrupt = CancellationToken::new();
        let context = CommandContext {
            interrupted: interrupt.clone(),
            other_commands: self.other_commands.subscribe(),
        };
        let vm = Arc::clone(&self.vm);
        let task = async move {
            tracing::debug!("{}: begins", kind.rule().name);
            command.run(&vm, context).await.map_err(Arc::new)
        };
        let task = self.tasks.spawn(task.instrument(span));
        let running = RunningCommand {
            id,
            interrupt,
            ends_vm: kind.ends_vm(),
        };
        self.running.insert(task.id(), running);
        self.publish_count();
        self.vm.publish_request(id);
    }

    fn interrupt(&self, id: CommandId) {
        let mut commands = self.running.values();
        if let Some(command) = commands.find(|command| command.id == id) {
            command.interrupt.cancel();
        }
    }

    fn refuse(&self, callers: Vec<Caller>, reason: CommandRefusal) {
        let start_notification = self.vm.start_notification.clone();
        let refuse = move || {
            for caller in callers {
                let _ = caller.send(refusal(reason));
            }
        };
        if reason != CommandRefusal::StartUnreported {
            return refuse();
        }
        if self.vm.start_notification.is_lost() {
            // Fails only when the observer is gone.
            let _ = self.vm.events.send(VmEvent::Republish);
        }
        tokio::spawn(async move {
            start_notification.wait_until_accepted().await;
            refuse();
        });
    }

    fn handle_end(&mut self, ended: Result<(Id, CommandResult), JoinError>) {
        let (task, outcome) = match ended {
            Ok(ended) => ended,
            Err(error) => (error.id(), Err(Arc::new(CommandError::Internal))),
        };
        let Some(RunningCommand { id, .. }) = self.running.remove(&task) else {
            return;
        };
        self.publish_count();
        let state = self.state();
        let (callers, actions) = self.queue.observe_done(id, outcome.is_ok(), &state);
        if let Err(error) = &outcome
            && callers.iter().all(oneshot::Sender::is_closed)
        {
            tracing::warn!(
                request = id.0,
                reason = %error,
                "a command failed whose callers did not wait"
            );
        }
        for caller in callers {
            // Fails if the caller gave up; virt-handler then repeats the request.
            let _ = caller.send(outcome.clone());
        }
        self.carry_out(actions);
    }

    fn publish_count(&self) {
        let others = self.running.values().filter(|running| !running.ends_vm);
        self.other_commands.send_replace(others.count());
    }
}

fn refusal(reason: CommandRefusal) -> CommandResult {
    Err(Arc::new(reason.into()))
}

/// The tracing span of a request: it lasts until the request is answered.
pub(super) fn request_span(id: CommandId) -> Span {
    tracing::info_span!("request", request = id.0)
}
