//! `new`: what it makes builds and passes its own tests.

use std::fs;
use std::process::Command;

use super::{text, virt_hook};

#[test]
fn a_new_rust_hook_builds_and_passes_its_tests_and_the_checks() {
    let place = tempfile::tempdir().unwrap();
    let project = place.path().join("shop-title");
    let sdk = tests::binaries::workspace().join("hooks-sdk");
    let made = virt_hook(&["new", text(&project), "--sdk", text(&sdk)]).ok();
    assert!(made.contains("make -C"), "{made}");
    // The versions that this workspace was tested with; nothing is downloaded for this test.
    let lock = tests::binaries::workspace().join("Cargo.lock");
    fs::copy(lock, project.join("Cargo.lock")).unwrap();
    for target in ["test", "check"] {
        let output = Command::new("make")
            .args(["--no-print-directory", "-C", text(&project), target])
            .env("VIRT_HOOK", env!("CARGO_BIN_EXE_virt-hook"))
            .env("CARGO", env!("CARGO"))
            // Shared by all runs of this test, so that it is built from nothing only once.
            .env(
                "CARGO_TARGET_DIR",
                tests::binaries::target_dir().join("new-hook"),
            )
            .output()
            .unwrap();
        let said = super::said(&output);
        let shown = format!("{}{}", said.out, said.err);
        assert_eq!(said.code, 0, "{shown}");
        match target {
            "test" => assert!(shown.contains("3 passed, 0 failed"), "{shown}"),
            _ => assert!(
                shown.contains("wishes: everything that it declares is used"),
                "{shown}"
            ),
        }
    }
}

#[test]
fn a_name_that_is_none_and_a_place_that_is_taken_are_refused() {
    let place = tempfile::tempdir().unwrap();
    let named = virt_hook(&["new", text(&place.path().join("Shop_Title"))]);
    assert_eq!(named.code, 2);
    assert!(
        named.err.contains("Shop_Title") && named.err.contains("a-z"),
        "{}",
        named.err
    );
    let taken = place.path().join("taken");
    fs::create_dir(&taken).unwrap();
    let said = virt_hook(&["new", text(&taken), "--json"]);
    assert_eq!(
        (said.code, said.json()["error"]["kind"].as_str()),
        (2, Some("usage"))
    );
}

#[test]
fn every_language_has_a_project() {
    let place = tempfile::tempdir().unwrap();
    for lang in ["rust", "python", "c"] {
        let project = place.path().join(lang);
        let json = virt_hook(&["new", text(&project), "--lang", lang, "--json"]).json();
        let files = json["result"]["files"].as_array().unwrap();
        assert!(files.iter().any(|file| file == "Makefile"), "{json:#}");
        assert!(project.join("README.md").is_file(), "{json:#}");
        // This program was built in a source tree.
        let sdk = json["result"]["sdk"].as_str();
        let known = sdk.is_some_and(|sdk| sdk.ends_with("/hooks-sdk"));
        assert_eq!(known, lang == "rust", "{json:#}");
    }
}
