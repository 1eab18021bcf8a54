//! Versions of tools are compared as numbers, and the oldest Rust is the SDK's.

use super::*;

#[test]
fn versions_are_compared_as_numbers() {
    assert!(is_at_least("rustc 1.95.0 (59807616e 2026-04-14)", MIN_RUST));
    assert!(!is_at_least("rustc 1.87.0", MIN_RUST) && !is_at_least("Python 3.9.2", MIN_PYTHON));
    assert!(is_at_least("Python 3.10.0", MIN_PYTHON) && is_at_least("Python 4.0", MIN_PYTHON));
    assert!(!is_at_least("no version", MIN_PYTHON));
    assert!(is_at_least("1.24.0", MIN_GO) && !is_at_least("1.23.9", MIN_GO));
}

/// The SDK's manifest has the version that is required.
#[test]
fn oldest_rust_is_that_of_the_sdk() {
    let manifest = include_str!("../../../../../../hooks-sdk/Cargo.toml");
    assert!(manifest.contains(&format!("rust-version = \"{}.{}\"", MIN_RUST.0, MIN_RUST.1)));
}
