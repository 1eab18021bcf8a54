//! The example hooks in Rust: the test cases in their READMEs, and the size of their modules.
#![allow(clippy::unwrap_used)]

use std::fs;

use hooks_sdk_testing::readme;
use tests::binaries::workspace;
use tests::build_and_install_hooks as hooks;

/// Modules must be small: a ConfigMap contains the hook, and each start of a pod compiles it.
const MAX_BYTES: u64 = 300 << 10;

#[test]
fn test_cases_in_the_readmes_pass() {
    for hook in hooks::examples().unwrap() {
        let module = hooks::example(&hook.package).unwrap();
        let cases = readme(hook.directory.join("README.md"), module);
        assert!(cases.unwrap_or_else(|error| panic!("{error}")) > 0);
    }
}

#[test]
fn every_readme_shows_the_policy_and_how_to_test() {
    for hook in hooks::examples().unwrap() {
        let text = fs::read_to_string(hook.directory.join("README.md")).unwrap();
        for expected in [
            "```yaml policy\n",
            "```yaml vmi\n",
            &format!("cargo test -p {}\n", hook.package),
        ] {
            assert!(text.contains(expected), "{}: {expected}", hook.package);
        }
    }
}

#[test]
fn every_module_has_at_most_300_kib() {
    for hook in hooks::examples().unwrap() {
        let module = hooks::example(&hook.package).unwrap();
        let bytes = fs::metadata(&module).unwrap().len();
        assert!(
            bytes <= MAX_BYTES,
            "{} has {bytes} bytes, more than {MAX_BYTES}",
            module.display()
        );
    }
}

/// Counts the lines from `impl Hook` to the export.
#[test]
fn smbios_hook_has_at_most_twenty_lines() {
    let source = workspace().join("examples-hooks/smbios/src/lib.rs");
    let source = fs::read_to_string(source).unwrap();
    let code = source
        .lines()
        .skip_while(|line| !line.starts_with("impl Hook"))
        .take_while(|line| !line.starts_with("hooks_sdk::export!"))
        .filter(|line| !line.trim().is_empty())
        .count();
    assert!(code > 0 && code <= 20, "{code}");
}
