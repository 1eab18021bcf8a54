//! The notifications of a VM's start.

use tests::launcher_fixture::LauncherFixture;

/// The notifications of a start: defined without metadata, defined with metadata, starting up, running.
const START_NOTIFICATIONS: [&str; 4] = [
    "ADDED Shutoff/Unknown",
    "MODIFIED Shutoff/Unknown",
    "MODIFIED Paused/StartingUp",
    "MODIFIED Running/Unknown",
];

/// Checks that the notifications are those of a start, possibly followed by others of the running VM.
pub(crate) fn assert_started(fixture: &LauncherFixture) {
    let states = fixture.handler.states();
    let history = fixture.handler.history();
    let (start, rest) = states.split_at(START_NOTIFICATIONS.len().min(states.len()));
    assert_eq!(start, START_NOTIFICATIONS, "{history}");
    assert!(
        rest.iter().all(|state| state == START_NOTIFICATIONS[3]),
        "{history}"
    );
}
