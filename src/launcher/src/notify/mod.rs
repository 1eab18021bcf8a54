//! Notifications to virt-handler. `notification_policy` decides what to send, `notification_client` holds the
//! connection; this module has the one task that sends, so that notifications arrive in order.

mod alerts;
mod k8s_event;
mod notification_client;
mod notification_policy;
mod send_task;
mod waiting_notifications;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::Shared;
use proto::notify::v1::{DomainEventRequest, K8sEventRequest};
use tokio::sync::{Notify, mpsc, oneshot};

pub(crate) use alerts::{Alert, AlertPolicy, panic_warning};
pub(crate) use k8s_event::{InvolvedObject, Warning};
pub(crate) use notification_policy::{EventType, Publication, Publications};
pub(crate) use send_task::SendTask;

use k8s_event::Severity;
use waiting_notifications::{Message, Outgoing};

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

/// Receives the delivery of one notification. Clones share it.
pub(crate) type Receipt = Shared<oneshot::Receiver<Delivery>>;

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
        let task = SendTask::new(socket, retry, Arc::clone(&retry_now), received);
        let notifier = Notifier {
            messages,
            retry_now,
            involved_object,
        };
        (notifier, task)
    }

    /// The same, with the task started. It ends with the last handle.
    pub fn start(socket: &Path, involved_object: InvolvedObject, retry: Retry) -> Notifier {
        let (notifier, task) = Notifier::new(socket, involved_object, retry);
        tokio::spawn(async move { task.run().await });
        notifier
    }

    /// Queues a domain event. If the domain is `alive` in it, it replaces the domain events that still wait when
    /// virt-handler is away. The receipt may be dropped.
    pub fn domain_event(
        &self,
        event_type: EventType,
        alive: bool,
        domain_json: Vec<u8>,
    ) -> Receipt {
        let (sender, receipt) = oneshot::channel();
        let request = DomainEventRequest {
            domain_json,
            status_json: Vec::new(),
            event_type: event_type.as_str().to_owned(),
        };
        self.queue(Outgoing::domain_event(request, alive, sender));
        receipt.shared()
    }

    /// Queues a Kubernetes event about a problem of the VMI.
    pub fn warning(&self, warning: &Warning) {
        self.kubernetes_event(Severity::Warning, warning.reason, &warning.message);
    }

    /// Queues a Kubernetes event about the VMI that is no problem.
    pub fn normal_event(&self, reason: &str, message: &str) {
        self.kubernetes_event(Severity::Normal, reason, message);
    }

    fn kubernetes_event(&self, severity: Severity, reason: &str, message: &str) {
        let event_json = severity.event_json(reason, message, &self.involved_object);
        self.queue(Outgoing::kubernetes_event(K8sEventRequest { event_json }));
    }

    /// Ends the pause before the next attempt, since virt-handler has just sent a request.
    pub fn retry_now(&self) {
        self.retry_now.notify_one();
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

#[cfg(test)]
mod tests;
