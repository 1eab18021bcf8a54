//! Notifications to virt-handler: what to say is `policy`'s, the connection `client`'s; here is the
//! one task that sends, in order, so that virt-handler never sees a life out of sequence.

mod client;
mod k8s_event;
mod policy;
mod trouble;

use std::collections::VecDeque;
use std::path::Path;
use std::time::Duration;

use proto::notify::v1::{DomainEventRequest, K8sEventRequest};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

pub use k8s_event::{Involved, Warning};
pub use policy::{EventType, Fact, Publication, Publications};
pub use trouble::{Trouble, Troubles, panic};

use client::{Call, Client, SendError};

/// How often and how long a notification is tried, as KubeVirt does.
#[derive(Debug, Clone, Copy)]
pub struct Retry {
    /// Pause between two attempts.
    pub interval: Duration,
    /// After this the notification is given up.
    pub total: Duration,
}

impl Default for Retry {
    fn default() -> Self {
        Retry {
            interval: Duration::from_secs(1),
            total: Duration::from_secs(20),
        }
    }
}

/// While virt-handler is away, this many notifications wait; the oldest are dropped first, for every
/// domain event tells the whole state.
const WAITING: usize = 128;

enum Message {
    Send(Call),
    Flush(oneshot::Sender<()>),
}

/// Hands notifications to the sending task.
#[derive(Clone)]
pub struct Notifier {
    messages: mpsc::UnboundedSender<Message>,
    about: Involved,
}

impl Notifier {
    /// Starts the sending task for virt-handler's socket. It ends with the last handle.
    pub fn start(socket: &Path, about: Involved, retry: Retry) -> Notifier {
        let (messages, received) = mpsc::unbounded_channel();
        let sender = Sender {
            client: Client::new(socket),
            retry,
            received,
            waiting: VecDeque::new(),
        };
        tokio::spawn(sender.run());
        Notifier { messages, about }
    }

    /// Queues a domain event.
    pub fn domain_event(&self, event_type: EventType, domain_json: Vec<u8>) {
        self.queue(Call::Domain(DomainEventRequest {
            domain_json,
            status_json: Vec::new(),
            event_type: event_type.as_str().to_owned(),
        }));
    }

    /// Queues a Kubernetes event about the VMI.
    pub fn warning(&self, warning: &Warning) {
        let event_json = warning.to_json(&self.about);
        self.queue(Call::Kubernetes(K8sEventRequest { event_json }));
    }

    /// Waits until everything queued so far was sent or given up; false when `deadline` came first.
    pub async fn flush(&self, deadline: Duration) -> bool {
        let (done, flushed) = oneshot::channel();
        if self.messages.send(Message::Flush(done)).is_err() {
            return false;
        }
        matches!(tokio::time::timeout(deadline, flushed).await, Ok(Ok(())))
    }

    fn queue(&self, call: Call) {
        // Without a sending task the runtime is going down, and there is nobody left to tell.
        let _ = self.messages.send(Message::Send(call));
    }
}

struct Sender {
    client: Client,
    retry: Retry,
    received: mpsc::UnboundedReceiver<Message>,
    waiting: VecDeque<Message>,
}

impl Sender {
    async fn run(mut self) {
        while let Some(message) = self.next().await {
            match message {
                Message::Send(call) => self.send(&call).await,
                Message::Flush(done) => {
                    let _ = done.send(());
                }
            }
        }
    }

    async fn next(&mut self) -> Option<Message> {
        match self.waiting.pop_front() {
            Some(message) => Some(message),
            None => self.received.recv().await,
        }
    }

    async fn send(&mut self, call: &Call) {
        let give_up = Instant::now() + self.retry.total;
        loop {
            let error = match self.client.send(call).await {
                Ok(()) => return,
                Err(error) => error,
            };
            if !error.is_transient() || Instant::now() + self.retry.interval > give_up {
                return lost(call, &error);
            }
            tracing::debug!(reason = %full(&error), "notification not delivered, trying again");
            tokio::time::sleep(self.retry.interval).await;
            self.make_room();
        }
    }

    fn make_room(&mut self) {
        while let Ok(message) = self.received.try_recv() {
            self.waiting.push_back(message);
        }
        let sends = |message: &Message| matches!(message, Message::Send(_));
        while self.waiting.iter().filter(|message| sends(message)).count() > WAITING {
            let oldest = self.waiting.iter().position(sends);
            if let Some(Message::Send(call)) = oldest.and_then(|at| self.waiting.remove(at)) {
                tracing::error!(
                    kind_of = name(&call),
                    "dropped a notification: virt-handler is away and too many wait"
                );
            }
        }
    }
}

fn lost(call: &Call, error: &SendError) {
    tracing::error!(reason = %full(error), kind_of = name(call), "gave up a notification");
}

fn name(call: &Call) -> &str {
    match call {
        Call::Domain(request) => &request.event_type,
        Call::Kubernetes(_) => "Kubernetes event",
    }
}

/// An error with its causes: tonic hides the interesting part in them.
fn full(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let part = error.to_string();
        if !text.contains(&part) {
            text.push_str(": ");
            text.push_str(&part);
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests;
