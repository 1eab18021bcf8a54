//! Replays the corpora of the fuzz targets.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::path::Path;

#[path = "../fuzz/laws.rs"]
#[allow(unreachable_pub)]
mod laws;

fn replay(target: &str, law: fn(&[u8])) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fuzz/corpus")
        .join(target);
    let mut files: Vec<_> = corpus
        .read_dir()
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    assert!(files.len() >= 5, "{target} has a corpus");
    for file in files {
        let input = std::fs::read(&file).unwrap();
        let told = std::panic::catch_unwind(|| law(&input));
        assert!(told.is_ok(), "{}", file.display());
    }
}

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
