//! Replays the corpora of the fuzz targets.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod fuzz_corpus_replay;
#[path = "../fuzz/properties.rs"]
#[allow(unreachable_pub)]
mod properties;

use fuzz_corpus_replay::replay;

#[test]
fn round_trip() {
    replay("round_trip", properties::round_trip);
}

#[test]
fn diff_apply() {
    replay("diff_apply", properties::diff_apply);
}

#[test]
fn path_pattern() {
    replay("path_pattern", properties::path_pattern);
}

#[test]
fn quick_xml_comparison() {
    replay("quick_xml_comparison", properties::quick_xml_comparison);
    replay("round_trip", properties::quick_xml_comparison);
}
