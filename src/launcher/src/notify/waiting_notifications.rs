//! The notifications that wait for virt-handler, in their order. Pure.

use std::collections::VecDeque;

use proto::notify::v1::{DomainEventRequest, K8sEventRequest};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::Delivery;
use super::notification_client::Call;

/// At most this many notifications wait while virt-handler is away. The oldest are dropped first, since every
/// domain event carries the whole state.
const MAX_WAITING: usize = 128;

/// More notifications than one change of the VM gives.
const LONG: usize = 16;

/// What the sending task receives.
pub(super) enum Message {
    Send(Outgoing),
    /// Reports when everything before it was sent or given up.
    Flush(oneshot::Sender<()>),
}

/// A notification on its way.
pub(super) struct Outgoing {
    pub(super) call: Call,
    /// The domain is alive in it.
    alive: bool,
    /// Its own receipt, and those of the notifications that it replaces.
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

    pub(super) fn kubernetes_event(request: K8sEventRequest) -> Outgoing {
        Outgoing {
            call: Call::Kubernetes(request),
            alive: false,
            receipts: Vec::new(),
            first_attempt: None,
        }
    }

    pub(super) fn confirm(self, delivery: Delivery) {
        for receipt in self.receipts {
            // The publisher need not wait for it.
            let _ = receipt.send(delivery);
        }
    }

    /// `ADDED`, `MODIFIED`, or that it is a Kubernetes event.
    pub(super) fn name(&self) -> &str {
        match &self.call {
            Call::Domain(request) => &request.event_type,
            Call::Kubernetes(_) => "Kubernetes event",
        }
    }
}

/// The queue.
#[derive(Default)]
pub(super) struct Waiting(VecDeque<Message>);

impl Waiting {
    pub(super) fn next(&mut self) -> Option<Message> {
        self.0.pop_front()
    }

    pub(super) fn push(&mut self, message: Message) {
        self.0.push_back(message);
    }

    /// Whether virt-handler is behind the state of the VM.
    pub(super) fn is_long(&self) -> bool {
        self.0.len() > LONG
    }

    /// The notification was not delivered, and is tried again before all others.
    pub(super) fn push_again(&mut self, outgoing: Outgoing) {
        self.0.push_front(Message::Send(outgoing));
    }

    /// A domain event in which the domain is alive replaces the domain events before it. virt-handler acts on each event
    /// that it reads: a domain that was off before it was started is deleted while it runs, if virt-handler knows from
    /// `GetDomain` that the VM has started.
    pub(super) fn drop_superseded(&mut self) {
        let is_alive = |message: &Message| matches!(message, Message::Send(one) if one.alive);
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

    /// Takes out the notifications that are too many, the oldest first.
    pub(super) fn take_excess(&mut self) -> Vec<Outgoing> {
        let sends = |message: &Message| matches!(message, Message::Send(_));
        let waiting = self.0.iter().filter(|message| sends(message)).count();
        let excess = waiting.saturating_sub(MAX_WAITING);
        let take_oldest = |_| match self.0.remove(self.0.iter().position(sends)?) {
            Some(Message::Send(oldest)) => Some(oldest),
            _ => None,
        };
        (0..excess).filter_map(take_oldest).collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
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

    fn waiting(events: &[(&str, bool)]) -> Waiting {
        let messages = events.iter().map(|(name, alive)| event(name, *alive).0);
        Waiting(messages.collect())
    }

    fn names(waiting: &Waiting) -> Vec<&str> {
        let names = waiting.0.iter().map(|message| match message {
            Message::Send(outgoing) => outgoing.name(),
            Message::Flush(_) => "flush",
        });
        names.collect()
    }

    #[test]
    fn an_alive_domain_replaces_all_states_before_it() {
        let mut waiting = waiting(&[("off", false), ("starting", true), ("running", true)]);
        waiting.drop_superseded();
        assert_eq!(names(&waiting), ["running"]);
    }

    #[test]
    fn end_notifications_are_not_merged() {
        let mut waiting = waiting(&[("running", true), ("crashed", false), ("gone", false)]);
        waiting.drop_superseded();
        assert_eq!(names(&waiting), ["running", "crashed", "gone"]);
    }

    #[test]
    fn kubernetes_events_and_flushes_keep_their_place() {
        let mut waiting = waiting(&[("off", false)]);
        let warning = Outgoing::kubernetes_event(K8sEventRequest::default());
        waiting.push(Message::Send(warning));
        waiting.push(Message::Flush(oneshot::channel().0));
        waiting.push(event("running", true).0);
        waiting.push(event("off", false).0);
        waiting.drop_superseded();
        let left = ["Kubernetes event", "flush", "running", "off"];
        assert_eq!(names(&waiting), left);
    }

    #[test]
    fn who_waits_for_a_replaced_notification_learns_of_its_replacement() {
        let (off, mut receipt) = event("off", false);
        let mut waiting = Waiting::default();
        waiting.push(off);
        waiting.push(event("running", true).0);
        waiting.drop_superseded();
        let Some(Message::Send(running)) = waiting.next() else {
            panic!("nothing waits");
        };
        running.confirm(Delivery::Accepted);
        assert_eq!(receipt.try_recv().unwrap(), Delivery::Accepted);
    }

    #[test]
    fn the_oldest_are_dropped_when_too_many_wait() {
        let mut waiting = waiting(&[("oldest", false)]);
        for _ in 0..MAX_WAITING {
            waiting.push(event("later", false).0);
        }
        let dropped = waiting.take_excess();
        assert_eq!(dropped.len(), 1);
        assert_eq!(dropped[0].name(), "oldest");
        assert!(waiting.take_excess().is_empty());
    }
}
