//! When a launcher whose start was refused ends. Times are measured from the refusal.

use std::time::Duration;

/// How long virt-handler has to take the event, as long as the last notification of a VM waits: it connects when the
/// cluster knows that the pod runs, and it may be restarting.
const LONGEST: Duration = Duration::from_secs(45);
/// The same, if this launcher cannot serve the command socket. virt-handler may be connected already.
const LONGEST_UNSERVED: Duration = Duration::from_secs(1);
/// How long a virt-handler that has the event has to ask for the VM, so that the reason becomes a condition of the VMI,
/// too. Meanwhile it prepares disks and network.
const START_AFTER_EVENT: Duration = Duration::from_secs(5);
/// How long a virt-handler that knows the reason has for its delete, which follows the end of the VMI.
const DELETE_AFTER_REFUSAL: Duration = Duration::from_millis(300);
/// How long the event is tried once the launcher is to end.
const EVENT_AFTER_END: Duration = Duration::from_millis(500);

/// What has happened since the refusal, and when.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Progress {
    /// Whether virt-handler can reach this launcher.
    pub(super) served: bool,
    /// The event was accepted or given up.
    pub(super) event_settled: Option<Duration>,
    /// virt-handler, which has the event, has asked for the VM, and is given the reason.
    pub(super) start_refused: Option<Duration>,
    /// virt-handler or a signal wants the launcher to end.
    pub(super) end_requested: Option<Duration>,
}

impl Progress {
    /// When the launcher ends if nothing more happens.
    pub(super) fn end(&self) -> Duration {
        let longest = match self.served {
            true => LONGEST,
            false => LONGEST_UNSERVED,
        };
        let requested = self.end_requested.map(|at| match self.event_settled {
            Some(settled) => at.max(settled),
            None => at + EVENT_AFTER_END,
        });
        let told = match (self.start_refused, self.event_settled) {
            (Some(refused), _) => Some(refused + DELETE_AFTER_REFUSAL),
            (None, Some(settled)) if self.served => Some(settled + START_AFTER_EVENT),
            (None, settled) => settled,
        };
        [requested, told]
            .into_iter()
            .flatten()
            .fold(longest, Duration::min)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What has happened after how many milliseconds, and when the launcher ends.
    struct Row {
        name: &'static str,
        served: bool,
        event_settled: Option<u64>,
        start_refused: Option<u64>,
        end_requested: Option<u64>,
        end: u64,
    }

    const ROWS: [Row; 9] = [
        row("no virt-handler", true, None, None, None, 45_000),
        row("no socket, no virt-handler", false, None, None, None, 1_000),
        row("no socket, event accepted", false, Some(20), None, None, 20),
        row(
            "event accepted, no sync yet",
            true,
            Some(900),
            None,
            None,
            5_900,
        ),
        row("told in both ways", true, Some(800), Some(900), None, 1_200),
        row(
            "deleted when told",
            true,
            Some(800),
            Some(900),
            Some(910),
            910,
        ),
        row(
            "signal before virt-handler came",
            true,
            None,
            None,
            Some(3_000),
            3_500,
        ),
        row(
            "signal after the event",
            true,
            Some(900),
            None,
            Some(1_000),
            1_000,
        ),
        row(
            "event late in the time",
            true,
            Some(44_000),
            None,
            None,
            45_000,
        ),
    ];

    const fn row(
        name: &'static str,
        served: bool,
        event_settled: Option<u64>,
        start_refused: Option<u64>,
        end_requested: Option<u64>,
        end: u64,
    ) -> Row {
        Row {
            name,
            served,
            event_settled,
            start_refused,
            end_requested,
            end,
        }
    }

    #[test]
    fn launcher_waits_until_virt_handler_was_told_and_not_longer_than_for_a_last_notification() {
        for row in ROWS {
            let progress = Progress {
                served: row.served,
                event_settled: row.event_settled.map(Duration::from_millis),
                start_refused: row.start_refused.map(Duration::from_millis),
                end_requested: row.end_requested.map(Duration::from_millis),
            };
            assert_eq!(
                progress.end(),
                Duration::from_millis(row.end),
                "{}",
                row.name
            );
        }
    }
}
