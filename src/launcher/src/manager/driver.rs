//! The one task that changes the VM. What runs when is `requests`' to say; here it is carried out.
//!
//! Operations run as tasks of their own, so that the driver always has an ear for a kill, and so that
//! a caller who goes away takes nothing with it.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{Id, JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use super::error::OpError;
use super::ops;
use super::requests::{Action, Refusal, Requests, Ticket, Verb};
use super::vm::Vm;

/// An operation's end. Shared: one operation may have several callers.
pub type Outcome = Result<(), Arc<OpError>>;

/// What an operation needs beside the VM.
pub(super) enum Payload {
    /// Nothing.
    None,
    /// The VMI with the options.
    Sync(Box<ops::SyncRequest>),
    /// The VMI.
    Vmi(Box<domain::vmi::Vmi>),
}

/// What the handle sends.
pub(super) enum Message {
    /// Do something.
    Request {
        /// What.
        verb: Verb,
        /// With what.
        payload: Payload,
        /// Whom to answer.
        caller: oneshot::Sender<Outcome>,
    },
    /// Take no more requests, end what can be ended.
    Close,
}

/// The driver. It ends when it was closed and nothing runs any more, or with its last handle.
pub(super) struct Driver {
    vm: Arc<Vm>,
    inbox: mpsc::Receiver<Message>,
    requests: Requests<Payload, oneshot::Sender<Outcome>>,
    running: JoinSet<Outcome>,
    tickets: HashMap<Id, Ticket>,
    ordinary: Option<(Ticket, CancellationToken)>,
    /// Whether an ordinary operation runs.
    busy: watch::Sender<bool>,
    closed: bool,
}

impl Driver {
    /// A driver for the VM, fed by `inbox`.
    pub(super) fn new(vm: Arc<Vm>, inbox: mpsc::Receiver<Message>) -> Driver {
        Driver {
            vm,
            inbox,
            requests: Requests::default(),
            running: JoinSet::new(),
            tickets: HashMap::new(),
            ordinary: None,
            busy: watch::Sender::new(false),
            closed: false,
        }
    }

    /// Runs to the end.
    pub(super) async fn run(mut self) {
        while !(self.closed && self.running.is_empty()) {
            tokio::select! {
                message = self.inbox.recv(), if !self.closed => match message {
                    Some(Message::Request { verb, payload, caller }) => self.request(verb, payload, caller),
                    Some(Message::Close) | None => self.close(),
                },
                Some(done) = self.running.join_next_with_id() => self.done(done),
            }
        }
        for caller in self.requests.abandon() {
            let _ = caller.send(refused(Refusal::Exiting));
        }
    }

    fn request(&mut self, verb: Verb, payload: Payload, caller: oneshot::Sender<Outcome>) {
        tracing::debug!(?verb, "request");
        let actions = self.requests.request(verb, payload, caller);
        self.carry_out(actions);
    }

    fn close(&mut self) {
        self.closed = true;
        let actions = self.requests.close();
        self.carry_out(actions);
    }

    fn carry_out(&mut self, actions: Vec<Action<Payload, oneshot::Sender<Outcome>>>) {
        for action in actions {
            match action {
                Action::Start {
                    ticket,
                    verb,
                    payload,
                } => self.start(ticket, verb, payload),
                Action::Interrupt(ticket) => self.interrupt(ticket),
                Action::Refuse(callers, why) => {
                    for caller in callers {
                        let _ = caller.send(refused(why));
                    }
                }
            }
        }
    }

    fn start(&mut self, ticket: Ticket, verb: Verb, payload: Payload) {
        let vm = Arc::clone(&self.vm);
        let task = if matches!(verb, Verb::Kill | Verb::Delete) {
            let settled = settled(self.busy.subscribe());
            self.running.spawn(end(vm, verb, settled))
        } else {
            let interrupted = CancellationToken::new();
            self.ordinary = Some((ticket, interrupted.clone()));
            self.busy.send_replace(true);
            self.running.spawn(act(vm, verb, payload, interrupted))
        };
        self.tickets.insert(task.id(), ticket);
    }

    fn interrupt(&self, ticket: Ticket) {
        if let Some((running, interrupted)) = &self.ordinary
            && *running == ticket
        {
            interrupted.cancel();
        }
    }

    fn done(&mut self, done: Result<(Id, Outcome), JoinError>) {
        let (id, outcome) = match done {
            Ok(done) => done,
            Err(error) => (error.id(), Err(Arc::new(OpError::Fault))),
        };
        let Some(ticket) = self.tickets.remove(&id) else {
            return;
        };
        if self
            .ordinary
            .take_if(|(running, _)| *running == ticket)
            .is_some()
        {
            self.busy.send_replace(false);
        }
        let (callers, actions) = self.requests.observe_done(ticket);
        if let Err(error) = &outcome
            && callers.iter().all(oneshot::Sender::is_closed)
        {
            tracing::warn!(reason = %error, "an operation failed whose callers did not wait");
        }
        for caller in callers {
            // A caller that gave up asks again.
            let _ = caller.send(outcome.clone());
        }
        self.carry_out(actions);
    }
}

fn refused(why: Refusal) -> Outcome {
    Err(Arc::new(why.into()))
}

async fn settled(mut busy: watch::Receiver<bool>) {
    // The driver, who holds the other end, outlives its operations.
    let _ = busy.wait_for(|busy| !busy).await;
}

async fn end(vm: Arc<Vm>, verb: Verb, settled: impl Future<Output = ()>) -> Outcome {
    let result = match verb {
        Verb::Kill => ops::kill(&vm, settled).await,
        _ => ops::delete(&vm, settled).await,
    };
    result.map_err(Arc::new)
}

async fn act(vm: Arc<Vm>, verb: Verb, payload: Payload, interrupted: CancellationToken) -> Outcome {
    let result = match (verb, payload) {
        (Verb::Sync { .. }, Payload::Sync(request)) => ops::sync(&vm, &request, &interrupted).await,
        (Verb::Pause, _) => ops::pause(&vm).await,
        (Verb::Unpause, _) => ops::unpause(&vm).await,
        (Verb::Reset, _) => ops::reset(&vm).await,
        (Verb::SoftReboot, Payload::Vmi(vmi)) => ops::soft_reboot(&vm, &vmi).await,
        (Verb::Shutdown, _) => ops::shutdown(&vm).await,
        _ => Err(OpError::Fault),
    };
    result.map_err(Arc::new)
}
