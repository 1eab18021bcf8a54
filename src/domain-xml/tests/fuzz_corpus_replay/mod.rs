//! `replay`: calls a property with each file of a fuzz corpus.

use std::path::Path;

/// Calls `property` with each file of the corpus of `target`.
pub(crate) fn replay(target: &str, property: fn(&[u8])) {
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
        let result = std::panic::catch_unwind(|| property(&input));
        assert!(result.is_ok(), "{}", file.display());
    }
}
