//! Replays the corpora of the fuzz targets.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod fuzz_corpus;
#[path = "../fuzz/laws.rs"]
#[allow(unreachable_pub)]
mod laws;

use fuzz_corpus::replay;

#[test]
fn round_trip() {
    replay("round_trip", laws::round_trip);
}

#[test]
fn diff_apply() {
    replay("diff_apply", laws::diff_apply);
}

#[test]
fn path_pattern() {
    replay("path_pattern", laws::path_pattern);
}

#[test]
fn second_opinion() {
    replay("second_opinion", laws::second_opinion);
    replay("round_trip", laws::second_opinion);
}
