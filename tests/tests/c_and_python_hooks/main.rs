//! Tests hooks in C and Python: the examples and the test hooks, built with their Makefiles and run by the hook host.
#![allow(clippy::unwrap_used)]

mod c_hooks;
mod python_hooks;
mod template_sdks;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use hooks_sdk_testing::Hook;
use tests::binaries::workspace;
use tests::build_and_install_hooks as hooks;
use tests::sample_pod_facts::{NETWORK_STATUS, POD_FACTS};

fn example(directory: &str) -> PathBuf {
    workspace().join("examples-hooks").join(directory)
}

/// Builds the module once per process.
fn build_once(cell: &OnceLock<PathBuf>, directory: &str, name: &str) -> PathBuf {
    let make = || {
        hooks::build_with_make(directory, "Makefile", name)
            .unwrap_or_else(|error| panic!("{error:#}"))
    };
    cell.get_or_init(make).clone()
}

/// Every VMI of the corpus: its path, its JSON, and its domain XML.
fn corpus() -> Vec<(PathBuf, String, String)> {
    let entries = fs::read_dir(workspace().join("tests/corpus/vmi-to-domain-xml")).unwrap();
    let mut all: Vec<_> = entries
        .filter_map(|entry| {
            let path = entry.unwrap().path();
            let case = path.to_str()?.strip_suffix(".vmi.json")?.to_owned();
            let xml = fs::read_to_string(format!("{case}.xml")).ok()?;
            Some((path.clone(), fs::read_to_string(path).unwrap(), xml))
        })
        .collect();
    all.sort();
    assert!(all.len() > 100, "the corpus has moved");
    all
}

fn load(module: &Path) -> Hook {
    Hook::load(module).unwrap_or_else(|error| panic!("{error}"))
}

/// Checks that a hook changes nothing in every `step`th VM of the corpus, none of which has its annotation.
fn assert_changes_nothing(hook: &Hook, step: usize) {
    for (path, vmi, xml) in corpus().iter().step_by(step) {
        hook.pre_start(vmi).ok();
        let defined = hook.on_define_domain(vmi, xml).ok();
        assert!(defined.changes.is_empty(), "{}", path.display());
    }
}

/// The hook in C that edits attached devices.
fn attach_hook() -> Hook {
    let module = hooks::build_with_make("tests/hooks/c-attach-device", "sdk/hook.mk", "attach");
    load(&module.unwrap_or_else(|error| panic!("{error:#}")))
}

/// The hook in Python that uses every hook point.
fn board_hook() -> Hook {
    static MODULE: OnceLock<PathBuf> = OnceLock::new();
    let make = || {
        let directory = "tests/hooks/python-every-hook-point";
        hooks::build_with_make(directory, "sdk/hook.mk", "board")
            .unwrap_or_else(|error| panic!("{error:#}"))
    };
    load(MODULE.get_or_init(make))
}

/// A VMI with a value of the annotation that [`board`] reads.
fn board_vmi(value: &str) -> String {
    let name = "board.example.com/manufacturer";
    serde_json::json!({"metadata": {"annotations": {name: value}}}).to_string()
}

#[test]
fn hooks_in_c_and_python_read_facts_about_the_pod() {
    let vmi = board_vmi("the pod");
    for hook in [attach_hook(), board_hook()] {
        let hook = hook
            .with_pod_annotation("a.example/b", "one")
            .with_network_status(NETWORK_STATUS);
        assert_eq!(hook.pre_start(&vmi).veto(), POD_FACTS);
    }
}
