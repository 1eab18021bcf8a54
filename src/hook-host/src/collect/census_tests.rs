#![allow(clippy::unwrap_used)]

use super::*;

const MS: Duration = Duration::from_millis(1);

fn id(place: &str) -> Id {
    let (directory, file) = place.split_once('/').unwrap();
    Id {
        directory: directory.into(),
        file: file.into(),
    }
}

fn found(place: &str) -> Found {
    let kind = if place.ends_with(".wasm") {
        Kind::Module
    } else {
        Kind::Socket
    };
    let age = Duration::ZERO;
    Found {
        id: id(place),
        kind,
        stamp: Stamp::default(),
        age,
        read_only: false,
    }
}

fn listing(places: &[&str]) -> Listing {
    let found: Vec<_> = places.iter().map(|place| found(place)).collect();
    let mut directories: Vec<_> = found.iter().map(|f| f.id.directory.clone()).collect();
    directories.dedup();
    Listing { found, directories }
}

/// Makes every attempt that is due, with the same outcome.
fn all(census: &mut Census, outcome: &Outcome, now: Instant) -> usize {
    let attempts = census.attempts(now);
    for attempt in &attempts {
        assert!(census.outcome(attempt, outcome.clone(), now));
    }
    attempts.len()
}

#[test]
fn complete_when_exactly_as_many_are_ready() {
    let now = Instant::now();
    let mut census = Census::new(2, now);
    census.observe(&listing(&["a/x.wasm"]), now).unwrap();
    assert_eq!(all(&mut census, &Outcome::Ready, now + MS), 1);
    assert_eq!(census.verdict(now), Verdict::Pending);
    census.observe(&listing(&["a/x.wasm", "b/s"]), now).unwrap();
    assert_eq!(
        all(&mut census, &Outcome::Ready, now + 3 * MS),
        1,
        "the first is not tried again"
    );
    assert_eq!(census.verdict(now), Verdict::Complete);
    assert_eq!(census.ready_after(&id("b/s")), Some(3 * MS));
}

#[test]
fn a_surplus_is_named_whole_even_when_it_is_not_ready() {
    let now = Instant::now();
    let mut census = Census::new(1, now);
    census
        .observe(&listing(&["a/x.wasm", "a/y.wasm", "b/s"]), now)
        .unwrap();
    let attempts = census.attempts(now);
    census.outcome(&attempts[0], Outcome::Ready, now);
    let all = vec![id("a/x.wasm"), id("a/y.wasm"), id("b/s")];
    assert_eq!(census.verdict(now), Verdict::Surplus(all));
    assert!(census.shares_directory(&id("a/x.wasm")) && !census.shares_directory(&id("b/s")));
}

#[test]
fn sockets_are_retried_with_growing_pauses() {
    let mut now = Instant::now();
    let mut census = Census::new(1, now);
    census.observe(&listing(&["a/s"]), now).unwrap();
    let mut pauses = Vec::new();
    for _ in 0..7 {
        assert_eq!(
            all(&mut census, &Outcome::NotReady("refuses".into()), now),
            1
        );
        assert_eq!(census.attempts(now), []);
        let next = census.next().unwrap();
        pauses.push((next - now).as_millis());
        now = next;
    }
    assert_eq!(pauses, [5, 10, 20, 40, 80, 100, 100]);
    assert_eq!(census.laggards(), ["a/s: refuses"]);
}

#[test]
fn a_flawed_file_has_two_seconds_to_change() {
    let now = Instant::now();
    let flawed = Outcome::Flawed("truncated".into());
    let mut census = Census::new(1, now);
    census.observe(&listing(&["a/x.wasm"]), now).unwrap();
    all(&mut census, &flawed, now);
    assert_eq!(census.verdict(now + 1999 * MS), Verdict::Pending);
    assert_eq!(census.next(), Some(now + SETTLED));
    assert_eq!(
        census.verdict(now + SETTLED),
        Verdict::Flawed("truncated".into())
    );

    let mut next = listing(&["a/x.wasm"]);
    next.found[0].stamp.size = 9;
    census.observe(&next, now + 1999 * MS).unwrap();
    assert_eq!(census.verdict(now + SETTLED), Verdict::Pending);
    assert_eq!(all(&mut census, &Outcome::Ready, now + SETTLED), 1);
    assert_eq!(census.verdict(now + SETTLED), Verdict::Complete);
}

#[test]
fn an_old_file_and_one_that_cannot_change_are_refused_at_once() {
    let now = Instant::now() + SETTLED;
    for edit in [
        |f: &mut Found| f.age = SETTLED,
        |f: &mut Found| f.read_only = true,
    ] {
        let mut census = Census::new(1, now);
        let mut there = listing(&["a/x.wasm"]);
        edit(&mut there.found[0]);
        census.observe(&there, now).unwrap();
        all(&mut census, &Outcome::Flawed("no".into()), now);
        assert_eq!(census.verdict(now), Verdict::Flawed("no".into()));
    }
}

#[test]
fn outcomes_of_what_has_changed_or_gone_do_not_count() {
    let now = Instant::now();
    let mut census = Census::new(1, now);
    census.observe(&listing(&["a/x.wasm"]), now).unwrap();
    let attempt = census.attempts(now).remove(0);
    let mut next = listing(&["a/x.wasm"]);
    next.found[0].stamp.inode = 1;
    census.observe(&next, now).unwrap();
    assert!(!census.outcome(&attempt, Outcome::Ready, now));
    assert_eq!(
        census.attempts(now).len(),
        1,
        "the new file gets its own attempt"
    );
    census.observe(&Listing::default(), now).unwrap();
    assert!(!census.outcome(&attempt, Outcome::Ready, now));
    assert_eq!(census.laggards(), ["1 of which there is no sign"]);
}

#[test]
fn a_replaced_module_is_ready_no_more() {
    let now = Instant::now();
    let mut census = Census::new(1, now);
    census.observe(&listing(&["a/x.wasm"]), now).unwrap();
    all(&mut census, &Outcome::Ready, now);
    let mut next = listing(&["a/x.wasm"]);
    next.found[0].stamp.inode = 1;
    census.observe(&next, now).unwrap();
    assert_eq!(census.verdict(now), Verdict::Pending);
}

#[test]
fn both_kinds_in_one_directory_are_refused() {
    let now = Instant::now();
    let mut census = Census::new(2, now);
    let mixed = census
        .observe(&listing(&["a/s", "a/x.wasm"]), now)
        .unwrap_err();
    assert_eq!((mixed.directory.as_str(), mixed.files.len()), ("a", 2));
}

#[test]
fn laggards_say_what_they_lack() {
    let now = Instant::now();
    let mut census = Census::new(4, now);
    let mut there = listing(&["a/s", "b/x.wasm"]);
    there.directories.push("c".into());
    census.observe(&there, now).unwrap();
    let attempts = census.attempts(now);
    census.outcome(&attempts[0], Outcome::Ready, now + 7 * MS);
    assert_eq!(census.arrived(), ["a/s (after 7 ms)"]);
    assert_eq!(
        census.laggards(),
        [
            "b/x.wasm: it has not answered, or is being compiled",
            "c: no socket and no .wasm file yet",
            "1 of which there is no sign",
        ]
    );
}
