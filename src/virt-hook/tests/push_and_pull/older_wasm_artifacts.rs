//! `pull` of wasm artifacts of older tools.

use std::fs;

use crate::test_registries::scripted_registry::{Answer, ScriptedRegistry, manifest_with_layer};
use crate::{OLD_WASM_MEDIA_TYPES, WASM, pull};

#[test]
fn older_wasm_artifacts_are_pulled() {
    let temp_dir = tempfile::tempdir().unwrap();
    let manifest = manifest_with_layer(OLD_WASM_MEDIA_TYPES, WASM, WASM.len());
    let registry = ScriptedRegistry::start(move |path| match path {
        "/v2/a/manifests/1" => Answer::of(manifest.clone()),
        _ => Answer::of(WASM.to_vec()),
    });
    let into = temp_dir.path().join("into");
    let pulled = pull(&registry, &into, "a:1").result();
    assert_eq!(pulled["kind"], "old wasm artifact");
    assert_eq!(fs::read(into.join("a/hook.wasm")).unwrap(), WASM);
}
