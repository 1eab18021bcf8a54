//! The profile `demo` takes back the overrides of `dev`, which it inherits.

use std::collections::BTreeSet;
use std::fs;

use tests::binaries::workspace;

/// The overrides that `demo` keeps: of assertions, and of the parser of CEL, which unoptimised overflows the stack of a thread.
const KEPT_BY_DEMO: [&str; 5] = ["*", "antlr4rust", "cel", "clap_builder", "tracing"];

/// The packages for which a profile has an override.
fn overrides(cargo_toml: &str, profile: &str) -> BTreeSet<String> {
    let prefix = format!("[profile.{profile}.package.");
    cargo_toml
        .lines()
        .filter_map(|line| line.strip_prefix(&prefix)?.strip_suffix(']'))
        .map(|package| package.trim_matches('"').to_owned())
        .collect()
}

#[test]
fn profile_demo_takes_back_the_overrides_of_dev() {
    let text = fs::read_to_string(workspace().join("Cargo.toml")).unwrap();
    let mut inherited = overrides(&text, "dev");
    for package in KEPT_BY_DEMO {
        assert!(
            inherited.remove(package),
            "dev has no override for {package}"
        );
    }
    assert!(inherited.contains("wasmtime"));
    assert_eq!(overrides(&text, "demo"), inherited);
    let lines: Vec<&str> = text.lines().collect();
    for pair in lines.windows(2) {
        if pair[0].starts_with("[profile.demo.package.") {
            assert_eq!(pair[1], "opt-level = 0", "{}", pair[0]);
        }
    }
}
