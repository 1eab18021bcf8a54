//! Notifications to virt-handler. `policy` decides what to send, `client` holds the connection; this module has
//! the one task that sends, so that notifications arrive in order.

mod alerts;
mod client;
mod k8s_event;
mod policy;

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use proto::notify::v1::{DomainEventRequest, K8sEventRequest};
use tokio::sync::{Mutex, Notify, mpsc, oneshot};
use tokio::time::Instant;

pub(crate) use alerts::{Alert, AlertPolicy, panic_warning};
pub(crate) use k8s_event::{InvolvedObject, Warning};
pub(crate) use policy::{EventType, Publication, Publications};

use client::{Call, Client, SendError};

/// How often and how long a notification is tried.
#[derive(Debug, Clone, Copy)]
pub struct Retry {
    /// Pause after the first failed attempt; each further pause is twice as long.
    pub first: Duration,
    /// Longest pause between two attempts.
    pub interval: Duration,
    /// After this the notification is given up.
    pub total: Duration,
}

impl Default for Retry {
    /// KubeVirt tries each second for 20 s, and its launcher waits up to 45 s for the last notification. A
    /// virt-handler that is restarted meanwhile is back in between, so every notification gets the longer time.
    fn default() -> Self {
        Retry {
            first: Duration::from_millis(50),
            interval: Duration::from_secs(1),
            total: Duration::from_secs(45),
        }
    }
}

/// Whether a notification arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// virt-handler has accepted it.
    Accepted,
    /// It was given up.
    Lost,
}

/// Receives the delivery of one notification.
pub(crate) type Receipt = oneshot::Receiver<Delivery>;

/// At most this many notifications wait while virt-handler is away. The oldest are dropped first, since every
/// domain event carries the whole state.
const MAX_WAITING: usize = 128;

enum Message {
    Send(Outgoing),
    Flush(oneshot::Sender<()>),
}

/// A notification on its way.
struct Outgoing {
    call: Call,
    receipt: Option<oneshot::Sender<Delivery>>,
}

impl Outgoing {
    fn confirm(self, delivery: Delivery) {
        if let Some(receipt) = self.receipt {
            // The publisher need not wait for it.
            let _ = receipt.send(delivery);
        }
    }
}

/// Queues notifications for the sending task.
#[derive(Clone)]
pub struct Notifier {
    messages: mpsc::UnboundedSender<Message>,
    retry_now: Arc<Notify>,
    involved_object: InvolvedObject,
}

impl Notifier {
    /// A notifier for virt-handler's socket, and the task that sends its notifications.
    pub fn new(
        socket: &Path,
        involved_object: InvolvedObject,
        retry: Retry,
    ) -> (Notifier, SendTask) {
        let (messages, received) = mpsc::unbounded_channel();
        let retry_now = Arc::new(Notify::new());
        let sender = Sender {
            client: Client::new(socket),
            retry,
            retry_now: Arc::clone(&retry_now),
            received,
            waiting: VecDeque::new(),
        };
        let notifier = Notifier {
            messages,
            retry_now,
            involved_object,
        };
        (notifier, SendTask(Arc::new(Mutex::new(sender))))
    }

    /// The same, with the task started. It ends with the last handle.
    pub fn start(socket: &Path, involved_object: InvolvedObject, retry: Retry) -> Notifier {
        let (notifier, task) = Notifier::new(socket, involved_object, retry);
        tokio::spawn(async move { task.run().await });
        notifier
    }

    /// Queues a domain event. The receipt may be dropped.
    pub fn domain_event(&self, event_type: EventType, domain_json: Vec<u8>) -> Receipt {
        let (sender, receipt) = oneshot::channel();
        self.queue(Outgoing {
            call: Call::Domain(DomainEventRequest {
                domain_json,
                status_json: Vec::new(),
                event_type: event_type.as_str().to_owned(),
            }),
            receipt: Some(sender),
        });
        receipt
    }

    /// Queues a Kubernetes event about the VMI.
    pub fn warning(&self, warning: &Warning) {
        let event_json = warning.to_json(&self.involved_object);
        self.queue(Outgoing {
            call: Call::Kubernetes(K8sEventRequest { event_json }),
            receipt: None,
        });
    }

    /// Ends the pause before the next attempt, since virt-handler has just sent a request.
    pub fn retry_now(&self) {
        self.retry_now.notify_waiters();
    }

    /// Waits until everything queued so far was sent or given up; false when `deadline` came first.
    pub async fn flush(&self, deadline: Duration) -> bool {
        let (done, flushed) = oneshot::channel();
        if self.messages.send(Message::Flush(done)).is_err() {
            return false;
        }
        matches!(tokio::time::timeout(deadline, flushed).await, Ok(Ok(())))
    }

    fn queue(&self, outgoing: Outgoing) {
        // Without a sending task the runtime is shutting down.
        let _ = self.messages.send(Message::Send(outgoing));
    }
}

/// The task that sends. When it is run again after it has ended, it continues with what is queued.
#[derive(Clone)]
pub struct SendTask(Arc<Mutex<Sender>>);

impl SendTask {
    /// Sends until the last handle of the notifier is gone.
    pub async fn run(&self) {
        self.0.lock().await.run().await;
    }
}

struct Sender {
    client: Client,
    retry: Retry,
    retry_now: Arc<Notify>,
    received: mpsc::UnboundedReceiver<Message>,
    waiting: VecDeque<Message>,
}

impl Sender {
    async fn run(&mut self) {
        while let Some(message) = self.next().await {
            match message {
                Message::Send(outgoing) => {
                    let delivery = self.send(&outgoing.call).await;
                    outgoing.confirm(delivery);
                }
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

    async fn send(&mut self, call: &Call) -> Delivery {
        let give_up = Instant::now() + self.retry.total;
        let mut pause = self.retry.first;
        loop {
            let error = match self.client.send(call).await {
                Ok(()) => return Delivery::Accepted,
                Err(error) => error,
            };
            if !error.is_transient() || Instant::now() + pause > give_up {
                log_lost(call, &error);
                return Delivery::Lost;
            }
            tracing::debug!(reason = %error_chain(&error), "notification not delivered, trying again");
            let nudged = self.retry_now.notified();
            let _ = tokio::time::timeout(pause, nudged).await;
            pause = (pause * 2).min(self.retry.interval);
            self.drop_oldest();
        }
    }

    fn drop_oldest(&mut self) {
        while let Ok(message) = self.received.try_recv() {
            self.waiting.push_back(message);
        }
        let sends = |message: &Message| matches!(message, Message::Send(_));
        while self.waiting.iter().filter(|message| sends(message)).count() > MAX_WAITING {
            let oldest = self.waiting.iter().position(sends);
            if let Some(Message::Send(outgoing)) = oldest.and_then(|at| self.waiting.remove(at)) {
                tracing::error!(
                    kind_of = name(&outgoing.call),
                    "dropped a notification: virt-handler is away and too many wait"
                );
                outgoing.confirm(Delivery::Lost);
            }
        }
    }
}

fn log_lost(call: &Call, error: &SendError) {
    tracing::error!(reason = %error_chain(error), kind_of = name(call), "gave up a notification");
}

fn name(call: &Call) -> &str {
    match call {
        Call::Domain(request) => &request.event_type,
        Call::Kubernetes(_) => "Kubernetes event",
    }
}

/// An error with its causes: tonic's own errors name the cause only there.
fn error_chain(error: &dyn std::error::Error) -> String {
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
