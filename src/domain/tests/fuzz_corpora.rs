//! Replays the corpora of the fuzz targets.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

#[path = "../../domain-xml/tests/fuzz_corpus_replay/mod.rs"]
mod fuzz_corpus_replay;
#[path = "../fuzz/properties.rs"]
#[allow(unreachable_pub)]
mod properties;

use fuzz_corpus_replay::replay;

#[test]
fn domain_xml_to_json() {
    replay("domain_xml_to_json", properties::domain_xml_to_json);
}
