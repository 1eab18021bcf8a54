//! The queue of notifications that wait for virt-handler.

use std::collections::VecDeque;

use proto::notify::v1::{DomainEventRequest, K8sEventRequest};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::Delivery;
use super::notification_client::Call;

/// Maximum number of queued notifications while virt-handler is down. The oldest are dropped first, because every
/// domain event contains the whole state.
const MAX_QUEUED: usize = 128;

/// A longer queue means that virt-handler is slow: one change of the VM causes fewer notifications.
const SLOW_HANDLER_LENGTH: usize = 16;

/// A message to the sending task.
pub(super) enum Message {
    Send(Outgoing),
    /// Answer when all notifications before this message were sent or given up.
    Flush(oneshot::Sender<()>),
}

/// A notification that is to be delivered.
pub(super) struct Outgoing {
    pub(super) call: Call,
    /// Whether the domain is alive in this notification.
    alive: bool,
    /// The receipt of this notification, and those of the notifications that it replaces.
    receipts: Vec<oneshot::Sender<Delivery>>,
    pub(super) first_attempt: Option<Instant>,
}

impl Outgoing {
    pub(super) fn domain_event(
        request: DomainEventRequest,
        alive: bool,
        receipt: oneshot::Sender<Delivery>,
    ) -> Outgoing {
        Outgoing {
            call: Call::Domain(request),
            alive,
            receipts: vec![receipt],
            first_attempt: None,
        }
    }

    pub(super) fn kubernetes_event(
        request: K8sEventRequest,
        receipt: oneshot::Sender<Delivery>,
    ) -> Outgoing {
        Outgoing {
            call: Call::Kubernetes(request),
            alive: false,
            receipts: vec![receipt],
            first_attempt: None,
        }
    }

    pub(super) fn confirm(self, delivery: Delivery) {
        for receipt in self.receipts {
            // Fails if the publisher does not wait for the receipt.
            let _ = receipt.send(delivery);
        }
    }

    /// The kind of the notification for log lines: `ADDED`, `MODIFIED` or a Kubernetes event.
    pub(super) fn name(&self) -> &str {
        match &self.call {
            Call::Domain(request) => &request.event_type,
            Call::Kubernetes(_) => "Kubernetes event",
        }
    }
}

/// The queue of the sending task.
#[derive(Default)]
pub(super) struct NotificationQueue(VecDeque<Message>);

impl NotificationQueue {
    pub(super) fn next(&mut self) -> Option<Message> {
        self.0.pop_front()
    }

    pub(super) fn push(&mut self, message: Message) {
        self.0.push_back(message);
    }

    /// Whether virt-handler accepts notifications more slowly than the VM changes.
    pub(super) fn is_handler_slow(&self) -> bool {
        self.0.len() > SLOW_HANDLER_LENGTH
    }

    /// Puts back a notification that was not delivered, before all others.
    pub(super) fn push_front(&mut self, outgoing: Outgoing) {
        self.0.push_front(Message::Send(outgoing));
    }

    /// Drops what is superseded, and above the limit the oldest.
    pub(super) fn shorten(&mut self) {
        self.drop_superseded();
        for dropped in self.take_excess() {
            tracing::error!(
                kind_of = dropped.name(),
                "dropped a notification: virt-handler is away and too many wait"
            );
            dropped.confirm(Delivery::Lost);
        }
    }

    /// Drops the domain events before the newest one in which the domain is alive. virt-handler acts on each event that
    /// it reads: an event that the domain is off, from before its start, lets virt-handler delete the running domain if
    /// it knows from `GetDomain` that the VM has started.
    fn drop_superseded(&mut self) {
        let is_alive =
            |message: &Message| matches!(message, Message::Send(outgoing) if outgoing.alive);
        let Some(newest) = self.0.iter().rposition(is_alive) else {
            return;
        };
        let later = self.0.split_off(newest);
        let mut receipts = Vec::new();
        for message in std::mem::take(&mut self.0) {
            match message {
                Message::Send(Outgoing {
                    call: Call::Domain(_),
                    receipts: superseded,
                    ..
                }) => receipts.extend(superseded),
                kept => self.0.push_back(kept),
            }
        }
        self.0.extend(later);
        let newest = self.0.iter_mut().find(|message| is_alive(message));
        if let Some(Message::Send(newest)) = newest {
            newest.receipts.extend(receipts);
        }
    }

    /// Removes the oldest notifications above the maximum.
    fn take_excess(&mut self) -> Vec<Outgoing> {
        let is_send = |message: &Message| matches!(message, Message::Send(_));
        let waiting = self.0.iter().filter(|message| is_send(message)).count();
        let excess = waiting.saturating_sub(MAX_QUEUED);
        let take_oldest = |_| match self.0.remove(self.0.iter().position(is_send)?) {
            Some(Message::Send(oldest)) => Some(oldest),
            _ => None,
        };
        (0..excess).filter_map(take_oldest).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(name: &str, alive: bool) -> (Message, oneshot::Receiver<Delivery>) {
        let (sender, receipt) = oneshot::channel();
        let request = DomainEventRequest {
            event_type: name.to_owned(),
            ..DomainEventRequest::default()
        };
        let outgoing = Outgoing::domain_event(request, alive, sender);
        (Message::Send(outgoing), receipt)
    }

    fn waiting(events: &[(&str, bool)]) -> NotificationQueue {
        let messages = events.iter().map(|(name, alive)| event(name, *alive).0);
        NotificationQueue(messages.collect())
    }

    fn names(waiting: &NotificationQueue) -> Vec<&str> {
        let names = waiting.0.iter().map(|message| match message {
            Message::Send(outgoing) => outgoing.name(),
            Message::Flush(_) => "flush",
        });
        names.collect()
    }

    #[test]
    fn alive_domain_replaces_all_earlier_states() {
        let mut waiting = waiting(&[("off", false), ("starting", true), ("running", true)]);
        waiting.drop_superseded();
        assert_eq!(names(&waiting), ["running"]);
    }

    #[test]
    fn notifications_of_the_end_are_not_dropped() {
        let mut waiting = waiting(&[("running", true), ("crashed", false), ("gone", false)]);
        waiting.drop_superseded();
        assert_eq!(names(&waiting), ["running", "crashed", "gone"]);
    }

    #[test]
    fn kubernetes_events_and_flushes_are_kept_in_order() {
        let mut waiting = waiting(&[("off", false)]);
        let warning = Outgoing::kubernetes_event(K8sEventRequest::default(), oneshot::channel().0);
        waiting.push(Message::Send(warning));
        waiting.push(Message::Flush(oneshot::channel().0));
        waiting.push(event("running", true).0);
        waiting.push(event("off", false).0);
        waiting.drop_superseded();
        let left = ["Kubernetes event", "flush", "running", "off"];
        assert_eq!(names(&waiting), left);
    }

    #[test]
    fn receipt_of_a_replaced_notification_has_the_outcome_of_its_replacement() {
        let (off, mut receipt) = event("off", false);
        let mut waiting = NotificationQueue::default();
        waiting.push(off);
        waiting.push(event("running", true).0);
        waiting.drop_superseded();
        let Some(Message::Send(running)) = waiting.next() else {
            panic!("the queue is empty");
        };
        running.confirm(Delivery::Accepted);
        assert_eq!(receipt.try_recv().unwrap(), Delivery::Accepted);
    }

    #[test]
    fn oldest_notifications_are_dropped_above_the_maximum() {
        let mut waiting = waiting(&[("oldest", false)]);
        for _ in 0..MAX_QUEUED {
            waiting.push(event("later", false).0);
        }
        let dropped = waiting.take_excess();
        assert_eq!(dropped.len(), 1);
        assert_eq!(dropped[0].name(), "oldest");
        assert!(waiting.take_excess().is_empty());
    }
}
