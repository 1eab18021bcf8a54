//! How late the changes of a sync may begin.

use std::time::Duration;

use tokio::time::Instant;

/// virt-handler waits 20 s for a sync, and a change may take 11 s.
const LAST_BEGIN: Duration = Duration::from_secs(7);
/// What hooks have for all devices. They end before the last change may begin: when they run out of time, the other
/// changes are begun all the same.
const HOOKS: Duration = Duration::from_secs(5);

/// The time of the changes of a sync. What comes before them (a conversion, a resume, the removal of failed attaches) does
/// not count: a VM for which that always takes long would never be changed.
pub(super) struct ChangesDeadline {
    begin: Instant,
}

impl ChangesDeadline {
    /// The first change begins now.
    pub(super) fn start() -> ChangesDeadline {
        ChangesDeadline {
            begin: Instant::now(),
        }
    }

    /// Whether another change may begin.
    pub(super) fn may_begin(&self) -> bool {
        Instant::now() <= self.begin + LAST_BEGIN
    }

    /// When the hooks of all devices have ended, the first of which is attached now.
    pub(super) fn hooks_end(&self) -> std::time::Instant {
        let end = (Instant::now() + HOOKS).min(self.begin + LAST_BEGIN);
        end.into_std()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::libvirt_client::COMMAND;

    #[test]
    fn last_change_ends_before_virt_handler_gives_up() {
        assert!(LAST_BEGIN + COMMAND.deadline < Duration::from_secs(20));
    }

    #[test]
    fn changes_may_begin_after_the_end_of_the_hooks_and_not_for_ever() {
        let time = ChangesDeadline::start();
        let last_begin = (time.begin + LAST_BEGIN).into_std();
        assert!(time.hooks_end() + Duration::from_secs(1) < last_begin);
        let late = ChangesDeadline {
            begin: time.begin.checked_sub(HOOKS).unwrap_or(time.begin),
        };
        assert!(late.hooks_end() > Instant::now().into_std());
        let long_ago = Instant::now().checked_sub(LAST_BEGIN * 2);
        let late = long_ago.map(|begin| ChangesDeadline { begin }.may_begin());
        assert!(time.may_begin() && late != Some(true));
    }
}
