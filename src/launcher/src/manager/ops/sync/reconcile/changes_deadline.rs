//! The deadlines of a sync's changes.

use std::time::Duration;

use tokio::time::Instant;

/// How long after the first change the last one may start: virt-handler waits 20 s for a sync, and a change may take 11
/// s.
const MAX_START_DELAY: Duration = Duration::from_secs(7);
/// How long the hooks of all devices may take together. They end before the last change may start, so that the other
/// changes are made even if the hooks run out of time.
const HOOKS_TIMEOUT: Duration = Duration::from_secs(5);

/// The deadlines of a sync's changes, counted from the first change. What comes before (conversion, resume, removal of
/// failed attaches) does not count: a VM for which that always takes long would never be changed.
pub(super) struct ChangesDeadline {
    begin: Instant,
}

impl ChangesDeadline {
    /// The deadlines of changes of which the first starts now.
    pub(super) fn start() -> ChangesDeadline {
        ChangesDeadline {
            begin: Instant::now(),
        }
    }

    /// Whether another change may start.
    pub(super) fn may_start_change(&self) -> bool {
        Instant::now() <= self.begin + MAX_START_DELAY
    }

    /// The deadline of the hooks of all devices, if the first device is attached now.
    pub(super) fn hooks_deadline(&self) -> std::time::Instant {
        let end = (Instant::now() + HOOKS_TIMEOUT).min(self.begin + MAX_START_DELAY);
        end.into_std()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::libvirt_client::COMMAND;

    #[test]
    fn last_change_ends_before_virt_handler_gives_up() {
        assert!(MAX_START_DELAY + COMMAND.deadline < Duration::from_secs(20));
    }

    #[test]
    fn changes_may_start_after_the_deadline_of_hooks_until_their_own_deadline() {
        let time = ChangesDeadline::start();
        let last_begin = (time.begin + MAX_START_DELAY).into_std();
        assert!(time.hooks_deadline() + Duration::from_secs(1) < last_begin);
        let late = ChangesDeadline {
            begin: time.begin.checked_sub(HOOKS_TIMEOUT).unwrap_or(time.begin),
        };
        assert!(late.hooks_deadline() > Instant::now().into_std());
        let long_ago = Instant::now().checked_sub(MAX_START_DELAY * 2);
        let late = long_ago.map(|begin| ChangesDeadline { begin }.may_start_change());
        assert!(time.may_start_change() && late != Some(true));
    }
}
