//! When the count is complete, when a hook is probed again, and when a flawed file fails the count.

use super::*;
use crate::collect::hook_file::{FileStamp, HookFile, HookFileKind};

const MS: Duration = Duration::from_millis(1);

fn id(place: &str) -> HookId {
    let (directory, file) = place.split_once('/').unwrap();
    HookId {
        directory: directory.into(),
        file: file.into(),
    }
}

fn hook_file(place: &str) -> HookFile {
    let kind = if place.ends_with(".wasm") {
        HookFileKind::Module
    } else {
        HookFileKind::Socket
    };
    let age = Duration::ZERO;
    HookFile {
        id: id(place),
        kind,
        stamp: FileStamp::default(),
        age,
        read_only: false,
    }
}

fn listing(places: &[&str]) -> HooksListing {
    let files: Vec<_> = places.iter().map(|place| hook_file(place)).collect();
    let mut directories: Vec<_> = files.iter().map(|file| file.id.directory.clone()).collect();
    directories.dedup();
    HooksListing {
        hooks: files,
        directories,
        dangling: Vec::new(),
        unusable: Vec::new(),
    }
}

/// Finishes every due probe with the same outcome.
fn probe_all(readiness: &mut Readiness, outcome: &ProbeOutcome, now: Instant) -> usize {
    let attempts = readiness.due_attempts(now);
    for attempt in &attempts {
        assert!(readiness.finish_attempt(attempt, outcome.clone(), now));
    }
    attempts.len()
}

#[test]
fn the_count_is_complete_when_exactly_the_expected_number_is_ready() {
    let now = Instant::now();
    let mut readiness = Readiness::new(2, now);
    readiness.observe(&listing(&["a/x.wasm"]), now).unwrap();
    assert_eq!(probe_all(&mut readiness, &ProbeOutcome::Ready, now + MS), 1);
    assert_eq!(readiness.count_state(now), CountState::Pending);
    readiness
        .observe(&listing(&["a/x.wasm", "b/s"]), now)
        .unwrap();
    assert_eq!(
        probe_all(&mut readiness, &ProbeOutcome::Ready, now + 3 * MS),
        1,
        "the first hook is not probed again"
    );
    assert_eq!(readiness.count_state(now), CountState::Complete);
    assert_eq!(readiness.ready_after(&id("b/s")), Some(3 * MS));
}

#[test]
fn a_surplus_lists_all_hooks_even_those_that_are_not_ready() {
    let now = Instant::now();
    let mut readiness = Readiness::new(1, now);
    readiness
        .observe(&listing(&["a/x.wasm", "a/y.wasm", "b/s"]), now)
        .unwrap();
    let attempts = readiness.due_attempts(now);
    readiness.finish_attempt(&attempts[0], ProbeOutcome::Ready, now);
    let all = vec![id("a/x.wasm"), id("a/y.wasm"), id("b/s")];
    assert_eq!(readiness.count_state(now), CountState::Surplus(all));
    assert!(readiness.shares_directory(&id("a/x.wasm")) && !readiness.shares_directory(&id("b/s")));
}

#[test]
fn sockets_are_retried_with_exponential_backoff() {
    let mut now = Instant::now();
    let mut readiness = Readiness::new(1, now);
    readiness.observe(&listing(&["a/s"]), now).unwrap();
    let mut pauses = Vec::new();
    for _ in 0..7 {
        assert_eq!(
            probe_all(
                &mut readiness,
                &ProbeOutcome::NotReady("refuses".into()),
                now
            ),
            1
        );
        assert_eq!(readiness.due_attempts(now), []);
        let next = readiness.next_due().unwrap();
        pauses.push((next - now).as_millis());
        now = next;
    }
    assert_eq!(pauses, [5, 10, 20, 40, 80, 100, 100]);
    assert_eq!(readiness.not_ready(), ["a/s: refuses"]);
}

#[test]
fn a_flawed_file_fails_the_count_after_two_seconds() {
    let now = Instant::now();
    let flawed = ProbeOutcome::Flawed("truncated".into());
    let mut readiness = Readiness::new(1, now);
    readiness.observe(&listing(&["a/x.wasm"]), now).unwrap();
    probe_all(&mut readiness, &flawed, now);
    assert_eq!(readiness.count_state(now + 1999 * MS), CountState::Pending);
    assert_eq!(readiness.next_due(), Some(now + WRITE_GRACE));
    assert_eq!(
        readiness.count_state(now + WRITE_GRACE),
        CountState::Flawed("truncated".into())
    );

    let mut changed = listing(&["a/x.wasm"]);
    changed.hooks[0].stamp.size = 9;
    readiness.observe(&changed, now + 1999 * MS).unwrap();
    assert_eq!(
        readiness.count_state(now + WRITE_GRACE),
        CountState::Pending
    );
    assert_eq!(
        probe_all(&mut readiness, &ProbeOutcome::Ready, now + WRITE_GRACE),
        1
    );
    assert_eq!(
        readiness.count_state(now + WRITE_GRACE),
        CountState::Complete
    );
}

#[test]
fn an_old_or_read_only_flawed_file_fails_the_count_at_once() {
    let now = Instant::now() + WRITE_GRACE;
    for edit in [
        |f: &mut HookFile| f.age = WRITE_GRACE,
        |f: &mut HookFile| f.read_only = true,
    ] {
        let mut readiness = Readiness::new(1, now);
        let mut hooks = listing(&["a/x.wasm"]);
        edit(&mut hooks.hooks[0]);
        readiness.observe(&hooks, now).unwrap();
        probe_all(&mut readiness, &ProbeOutcome::Flawed("no".into()), now);
        assert_eq!(readiness.count_state(now), CountState::Flawed("no".into()));
    }
}

#[test]
fn the_outcome_for_a_changed_file_is_ignored() {
    let now = Instant::now();
    let mut readiness = Readiness::new(1, now);
    readiness.observe(&listing(&["a/x.wasm"]), now).unwrap();
    let attempt = readiness.due_attempts(now).remove(0);
    let mut changed = listing(&["a/x.wasm"]);
    changed.hooks[0].stamp.inode = 1;
    readiness.observe(&changed, now).unwrap();
    assert!(!readiness.finish_attempt(&attempt, ProbeOutcome::Ready, now));
    assert_eq!(
        readiness.due_attempts(now).len(),
        1,
        "the new file gets its own attempt"
    );
    readiness.observe(&HooksListing::default(), now).unwrap();
    assert!(!readiness.finish_attempt(&attempt, ProbeOutcome::Ready, now));
    assert_eq!(readiness.not_ready(), ["1 of which there is no sign"]);
}

#[test]
fn a_replaced_module_is_no_longer_ready() {
    let now = Instant::now();
    let mut readiness = Readiness::new(1, now);
    readiness.observe(&listing(&["a/x.wasm"]), now).unwrap();
    probe_all(&mut readiness, &ProbeOutcome::Ready, now);
    let mut changed = listing(&["a/x.wasm"]);
    changed.hooks[0].stamp.inode = 1;
    readiness.observe(&changed, now).unwrap();
    assert_eq!(readiness.count_state(now), CountState::Pending);
}

#[test]
fn a_socket_and_a_module_in_one_directory_are_refused() {
    let now = Instant::now();
    let mut readiness = Readiness::new(2, now);
    let mixed = readiness
        .observe(&listing(&["a/s", "a/x.wasm"]), now)
        .unwrap_err();
    assert_eq!((mixed.directory.as_str(), mixed.files.len()), ("a", 2));
}

#[test]
fn hooks_that_are_not_ready_are_listed_with_their_reason() {
    let now = Instant::now();
    let mut readiness = Readiness::new(4, now);
    let mut hooks = listing(&["a/s", "b/x.wasm"]);
    hooks.directories.push("c".into());
    readiness.observe(&hooks, now).unwrap();
    let attempts = readiness.due_attempts(now);
    readiness.finish_attempt(&attempts[0], ProbeOutcome::Ready, now + 7 * MS);
    assert_eq!(readiness.arrived(), ["a/s (after 7 ms)"]);
    assert_eq!(
        readiness.not_ready(),
        [
            "b/x.wasm: it has not answered, or is being compiled",
            "c: no socket and no .wasm file yet",
            "1 of which there is no sign",
        ]
    );
}
