//! The last notification of a domain that is not alive, which is not repeated. Pure.

use crate::notify::EventType;

/// What virt-handler was told last, if the domain was not alive in it.
#[derive(Debug, Default)]
pub(super) struct LastOffNotification(Option<OffNotification>);

/// A notification without its time.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct OffNotification {
    pub(super) event_type: EventType,
    /// The domain, without a deletion timestamp.
    pub(super) json: Vec<u8>,
    /// A deletion timestamp goes with it.
    pub(super) is_last: bool,
}

impl LastOffNotification {
    /// Whether a notification says something new; `None` is one in which the domain is alive. libvirt has up to three
    /// events for the end of a domain. That an alive domain is published again may be awaited.
    pub(super) fn observe(&mut self, next: Option<OffNotification>) -> bool {
        let is_new = next.is_none() || next != self.0;
        self.0 = next;
        is_new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn off(json: &str, is_last: bool) -> Option<OffNotification> {
        Some(OffNotification {
            event_type: EventType::Modified,
            json: json.into(),
            is_last,
        })
    }

    #[test]
    fn equal_notification_of_an_ended_domain_is_not_repeated() {
        let mut last = LastOffNotification::default();
        assert!(last.observe(off("migrated", false)));
        assert!(!last.observe(off("migrated", false)));
        assert!(last.observe(off("gone", false)));
        assert!(last.observe(off("gone", true)));
        assert!(!last.observe(off("gone", true)));
    }

    #[test]
    fn domain_that_was_alive_in_between_ends_anew() {
        let mut last = LastOffNotification::default();
        assert!(last.observe(off("off", false)));
        assert!(last.observe(None));
        assert!(last.observe(None));
        assert!(last.observe(off("off", false)));
    }
}
