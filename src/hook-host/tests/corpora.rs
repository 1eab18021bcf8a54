//! Replays the corpora of the fuzz targets.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

#[path = "../../domain-xml/tests/fuzz_corpus/mod.rs"]
mod fuzz_corpus;
#[path = "../fuzz/laws.rs"]
#[allow(unreachable_pub)]
mod laws;

use fuzz_corpus::replay;

#[test]
fn grants() {
    replay("grants", laws::grants);
}

#[test]
fn description() {
    replay("description", laws::description);
}

#[test]
fn policy_file() {
    replay("policy_file", laws::policy_file);
}

#[test]
fn record() {
    replay("record", laws::record);
}
