//! Notifications to virt-handler: domain events and Kubernetes events. `notification_policy` decides what to send;
//! `send_task` is the only task that sends, so that notifications arrive in order.

mod alert_policy;
mod guest_panic_in_qemu_log;
mod notification_policy;
mod send_task;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::Shared;
use proto::notify::v1::{DomainEventRequest, K8sEventRequest};
use serde::Serialize;
use tokio::sync::{Notify, mpsc, oneshot};

pub(crate) use alert_policy::{Alert, AlertPolicy};
pub(crate) use guest_panic_in_qemu_log::panic_warning;
pub(crate) use notification_policy::{EventType, NotificationPolicy, Publication};
pub(crate) use send_task::SendTask;
use send_task::{Message, Outgoing};

/// How often and for how long an undelivered notification is sent again.
#[derive(Debug, Clone, Copy)]
pub struct RetryTimes {
    /// The pause after the first failed attempt; each further pause is twice as long.
    pub first_pause: Duration,
    /// The longest pause between two attempts.
    pub max_pause: Duration,
    /// After this time the notification is given up.
    pub give_up_after: Duration,
}

impl Default for RetryTimes {
    /// KubeVirt's launcher tries every second for 20 s, but waits up to 45 s for the last notification. A restart of
    /// virt-handler takes longer than 20 s and less than 45 s, so every notification gets the longer time.
    fn default() -> Self {
        RetryTimes {
            first_pause: Duration::from_millis(50),
            max_pause: Duration::from_secs(1),
            give_up_after: Duration::from_secs(45),
        }
    }
}

/// The outcome of a notification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// virt-handler has accepted the notification.
    Accepted,
    /// The notification was given up.
    Lost,
}

/// Receives the outcome of one notification. Clones receive the same.
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
        retry_times: RetryTimes,
    ) -> (Notifier, SendTask) {
        let (messages, received) = mpsc::unbounded_channel();
        let retry_now = Arc::new(Notify::new());
        let task = SendTask::new(socket, retry_times, Arc::clone(&retry_now), received);
        let notifier = Notifier {
            messages,
            retry_now,
            involved_object,
        };
        (notifier, task)
    }

    /// As [`Notifier::new`], with the task started. The task ends when the last clone of the notifier is dropped.
    pub fn start(
        socket: &Path,
        involved_object: InvolvedObject,
        retry_times: RetryTimes,
    ) -> Notifier {
        let (notifier, task) = Notifier::new(socket, involved_object, retry_times);
        tokio::spawn(async move { task.run().await });
        notifier
    }

    /// Queues a domain event. If the domain is `alive`, the event replaces earlier domain events that still wait
    /// because virt-handler is down or slow. The receipt may be dropped.
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

    /// Queues a Kubernetes event of type `Warning` about the VMI.
    pub fn warning(&self, warning: &Warning) {
        drop(self.warning_with_receipt(warning));
    }

    /// As [`Notifier::warning`], with the receipt of the event.
    pub(crate) fn warning_with_receipt(&self, warning: &Warning) -> Receipt {
        self.kubernetes_event(Severity::Warning, warning.reason, &warning.message)
    }

    /// Queues a Kubernetes event of type `Normal` about the VMI.
    pub fn normal_event(&self, reason: &str, message: &str) {
        drop(self.kubernetes_event(Severity::Normal, reason, message));
    }

    fn kubernetes_event(&self, severity: Severity, reason: &str, message: &str) -> Receipt {
        let event_json = severity.event_json(reason, message, &self.involved_object);
        let (sender, receipt) = oneshot::channel();
        let request = K8sEventRequest { event_json };
        self.queue(Outgoing::kubernetes_event(request, sender));
        receipt.shared()
    }

    /// Ends the pause before the next attempt, since virt-handler has just sent a request.
    pub fn retry_now(&self) {
        self.retry_now.notify_one();
    }

    /// Waits until all notifications queued so far were sent or given up. Returns false after `timeout`.
    pub async fn flush(&self, timeout: Duration) -> bool {
        let (done, flushed) = oneshot::channel();
        if self.messages.send(Message::Flush(done)).is_err() {
            return false;
        }
        matches!(tokio::time::timeout(timeout, flushed).await, Ok(Ok(())))
    }

    fn queue(&self, outgoing: Outgoing) {
        // Without a sending task the runtime is shutting down.
        let _ = self.messages.send(Message::Send(outgoing));
    }
}

/// A Kubernetes event of type `Warning` about the VMI.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// The event's reason: one word in CamelCase.
    pub reason: &'static str,
    /// The event's message, for the VM's owner.
    pub message: String,
}

/// The VMI that an event is about.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InvolvedObject {
    /// Name of the VMI.
    pub name: String,
    /// Namespace of the VMI.
    pub namespace: String,
    /// UID of the VMI.
    pub uid: String,
}

/// A `v1.Event` as Go encodes it: the fields without `omitempty` are present.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct EventJson<'a> {
    metadata: MetadataJson,
    involved_object: ObjectReferenceJson<'a>,
    reason: &'a str,
    message: &'a str,
    source: Empty,
    first_timestamp: Option<()>,
    last_timestamp: Option<()>,
    #[serde(rename = "type")]
    severity: &'a str,
    event_time: Option<()>,
    reporting_component: &'a str,
    reporting_instance: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct MetadataJson {
    creation_timestamp: Option<()>,
}

#[derive(Serialize)]
struct Empty {}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ObjectReferenceJson<'a> {
    kind: &'a str,
    namespace: &'a str,
    name: &'a str,
    uid: &'a str,
    api_version: &'a str,
}

/// The type of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Severity {
    Normal,
    Warning,
}

impl Severity {
    fn name(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }

    /// The JSON of an event of this type, which virt-handler decodes.
    fn event_json(self, reason: &str, message: &str, involved: &InvolvedObject) -> Vec<u8> {
        let event = EventJson {
            metadata: MetadataJson {
                creation_timestamp: None,
            },
            involved_object: ObjectReferenceJson {
                kind: "VirtualMachineInstance",
                namespace: &involved.namespace,
                name: &involved.name,
                uid: &involved.uid,
                api_version: "kubevirt.io/v1",
            },
            reason,
            message,
            source: Empty {},
            first_timestamp: None,
            last_timestamp: None,
            severity: self.name(),
            event_time: None,
            reporting_component: "",
            reporting_instance: "",
        };
        serde_json::to_vec(&event).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
