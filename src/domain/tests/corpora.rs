//! Replays the corpora of the fuzz targets.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

#[path = "../../domain-xml/tests/fuzz_corpus/mod.rs"]
mod fuzz_corpus;
#[path = "../fuzz/laws.rs"]
#[allow(unreachable_pub)]
mod laws;

use fuzz_corpus::replay;

#[test]
fn domain_json() {
    replay("domain_json", laws::domain_json);
}
