//! Invalid answers of a registry are refused.

use serde_json::json;

use crate::test_registries::scripted_registry::{
    Answer, ScriptedRegistry, manifest_with_layer, sha256,
};
use crate::{OLD_WASM_MEDIA_TYPES, WASM, pull_within};

#[test]
fn invalid_answers_are_refused() {
    let temp_dir = tempfile::tempdir().unwrap();
    let into = temp_dir.path().join("into");
    let valid_manifest = || manifest_with_layer(OLD_WASM_MEDIA_TYPES, WASM, WASM.len());
    let pinned = format!("a@{}", sha256(&valid_manifest()));
    let module = || Answer::of(WASM.to_vec());
    let cases: Vec<(&str, &str, Answer, Answer)> = vec![
        // The reference, a part of the error, the manifest, the blob.
        (&pinned, "has the digest", Answer::of(manifest_with_layer(OLD_WASM_MEDIA_TYPES, b"\0asm", 4)), module()),
        ("a:1", "has the digest", Answer::of(valid_manifest()), Answer::of(b"\0asmotherx"[..8].to_vec())),
        ("a:1", "v2/a/blobs/sha256", Answer::of(valid_manifest()), module().with_content_length(100)),
        ("a:1", "more than the 8 bytes", Answer::of(valid_manifest()), Answer::of([WASM, WASM].concat())),
        ("a:1", "more than the 4194304 bytes", Answer::of(vec![b' '; 5 << 20]), module()),
        ("a:1", "the limit is 33554432 bytes", Answer::of(manifest_with_layer(OLD_WASM_MEDIA_TYPES, WASM, 1 << 40)), module()),
        ("a:1", "not JSON", Answer::of(b"hello".to_vec()), module()),
        ("a:1", "v2/a/manifests/1", Answer::of(valid_manifest()).with_content_length(1 << 20), module()),
        ("a:1", "within 5s", Answer::Silence, module()),
        ("a:1", "within 5s", Answer::of(valid_manifest()), Answer::Silence),
        ("a:1", "nothing of this name", Answer::status(404), module()),
        ("a:1", "answers 500: \"gone \\u{1b}[2J\"", Answer::error("gone \u{1b}[2J"), module()),
        ("a:1", "neither an image nor", Answer::of(manifest_with_layer(["x\u{1b}", "y"], WASM, 8)), module()),
        ("a:1", "not a sha256 digest", Answer::of(
            json!({"config": {"mediaType": OLD_WASM_MEDIA_TYPES[0]}, "layers": [{"mediaType": OLD_WASM_MEDIA_TYPES[1], "digest": "../x"}]})
                .to_string().into_bytes()), module()),
        ("a:1", "one layer", Answer::of(
            json!({"config": {"mediaType": OLD_WASM_MEDIA_TYPES[0]}, "layers": []}).to_string().into_bytes()), module()),
        ("a:1", "not WebAssembly", Answer::of(manifest_with_layer(OLD_WASM_MEDIA_TYPES, b"#!/bin/s", 8)),
            Answer::of(b"#!/bin/s".to_vec())),
        ("a:1", "not an https address", Answer::challenge("Bearer realm=\"https://a@b/\""), module()),
    ];
    for (reference, part, manifest, blob) in cases {
        let registry = ScriptedRegistry::start(move |path| match path.contains("/manifests/") {
            true => manifest.clone(),
            false => blob.clone(),
        });
        // The deadline is short only where it is to expire: the machine may be busy.
        let seconds = if part == "within 5s" { "5" } else { "120" };
        let refused = pull_within(seconds, &registry, &into, reference);
        assert!([1, 3].contains(&refused.code), "{part}: {}", refused.err);
        assert!(refused.err.contains(part), "{part}: {}", refused.err);
        assert_eq!(refused.err.lines().count(), 1, "{}", refused.err);
        assert!(!into.exists(), "{part}");
    }
}
