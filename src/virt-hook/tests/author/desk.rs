//! `doctor`, `completions` and `man`.

use super::{ProgramOutput, program, text, virt_hook};

#[test]
fn doctor_names_what_is_there_and_how_to_get_the_rest() {
    let here = virt_hook(&["doctor", "--json"]).json();
    let languages = here["result"]["languages"].to_string();
    assert!(languages.contains("Rust"), "{here:#}");
    let mut without_tools = program();
    without_tools.arg("doctor").env("PATH", "/nonexistent");
    let nothing = ProgramOutput::from(without_tools.output().unwrap());
    assert_eq!(nothing.code, 1, "{}{}", nothing.out, nothing.err);
    assert!(
        nothing
            .out
            .contains("missing  wasm32-wasip2: rustup target add wasm32-wasip2")
            && nothing.out.contains("Hooks can be written in no language."),
        "{}",
        nothing.out
    );
}

#[test]
fn shells_complete_every_verb() {
    for shell in ["bash", "zsh", "fish"] {
        let script = virt_hook(&["completions", shell]).ok();
        for verb in ["compare", "doctor", "replay"] {
            assert!(script.contains(verb), "{shell}: {verb}");
        }
    }
}

#[test]
fn every_verb_has_a_man_page() {
    let place = tempfile::tempdir().unwrap();
    virt_hook(&["man", "--into", text(place.path())]).ok();
    for (page, part) in [
        ("virt-hook.1", "Exit codes"),
        ("virt-hook-check.1", "without"),
    ] {
        let text = std::fs::read_to_string(place.path().join(page)).unwrap();
        assert!(
            text.contains(part) && text.starts_with(".ie"),
            "{page}: {text}"
        );
    }
    assert!(!place.path().join("virt-hook-help.1").exists());
}
