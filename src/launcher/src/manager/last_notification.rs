//! The last notification of the domain, which is not repeated. Pure.
//!
//! virt-handler reconciles the whole VMI for each notification, and libvirt sends up to three events for one change.

use futures_util::FutureExt;

use crate::notify::{Delivery, EventType, Receipt};

/// The last notification to virt-handler, and whether virt-handler has accepted it.
#[derive(Default)]
pub(super) struct LastNotification(Option<(Notification, Receipt)>);

/// A notification without the time at which it was sent.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Notification {
    pub(super) event_type: EventType,
    /// The domain as JSON, without a deletion timestamp.
    pub(super) json: Vec<u8>,
}

impl LastNotification {
    pub(super) fn new(notification: Notification, receipt: Receipt) -> LastNotification {
        LastNotification(Some((notification, receipt)))
    }

    /// The receipt of the last notification, if that is equal to `next` and was not lost.
    pub(super) fn receipt_of_equal(&self, next: &Notification) -> Option<Receipt> {
        let (last, receipt) = self.0.as_ref()?;
        let is_lost = || {
            let delivery = receipt.clone().now_or_never();
            matches!(delivery, Some(Ok(Delivery::Lost) | Err(_)))
        };
        (last == next && !is_lost()).then(|| receipt.clone())
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    fn notification(json: &str) -> Notification {
        Notification {
            event_type: EventType::Modified,
            json: json.into(),
        }
    }

    fn last(json: &str) -> (LastNotification, oneshot::Sender<Delivery>) {
        let (delivered, receipt) = oneshot::channel();
        let last = LastNotification::new(notification(json), receipt.shared());
        (last, delivered)
    }

    #[test]
    fn equal_notification_is_not_repeated_unless_it_was_lost() {
        let (last, delivered) = last("running");
        assert!(last.receipt_of_equal(&notification("running")).is_some());
        delivered.send(Delivery::Accepted).unwrap();
        let receipt = last.receipt_of_equal(&notification("running")).unwrap();
        assert_eq!(receipt.now_or_never(), Some(Ok(Delivery::Accepted)));
    }

    #[test]
    fn notification_with_another_state_or_type_is_sent() {
        let (last, _delivered) = last("running");
        assert!(last.receipt_of_equal(&notification("paused")).is_none());
        let added = Notification {
            event_type: EventType::Added,
            ..notification("running")
        };
        assert!(last.receipt_of_equal(&added).is_none());
        let empty = LastNotification::default();
        assert!(empty.receipt_of_equal(&notification("running")).is_none());
    }

    #[test]
    fn lost_notification_is_repeated() {
        let (lost, delivered) = last("running");
        delivered.send(Delivery::Lost).unwrap();
        assert!(lost.receipt_of_equal(&notification("running")).is_none());
        let (dropped, delivered) = last("running");
        drop(delivered);
        assert!(dropped.receipt_of_equal(&notification("running")).is_none());
    }
}
