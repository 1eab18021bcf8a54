//! Replays the corpora of the fuzz targets.

#[path = "../../../domain-xml/tests/fuzz_corpus_replay/mod.rs"]
mod fuzz_corpus_replay;
#[path = "../../fuzz/properties.rs"]
#[allow(unreachable_pub)]
mod properties;

use fuzz_corpus_replay::replay;

#[test]
fn grants() {
    replay("grants", properties::grants);
}

#[test]
fn description() {
    replay("description", properties::description);
}

#[test]
fn policy_file() {
    replay("policy_file", properties::policy_file);
}

#[test]
fn record() {
    replay("record", properties::record);
}
