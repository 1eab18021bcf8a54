//! Invalid answers of a registry are refused: answers that lie, lead elsewhere, or do not end.

use serde_json::{Value, json};

use crate::test_registries::built_images::Expected::{Files, Refused};
use crate::test_registries::built_images::{
    Expected, INDEX, MANIFEST, TAR, assert_outcome, check, descriptor, good_layer, manifest_of,
    serve,
};
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
        ("a:1", "the limit is 33554432 bytes", Answer::of(manifest_with_layer(OLD_WASM_MEDIA_TYPES, WASM, 1 << 40)), module()),
        ("a:1", "not JSON", Answer::of(b"hello".to_vec()), module()),
        ("a:1", "v2/a/manifests/1", Answer::of(valid_manifest()).with_content_length(1 << 20), module()),
        ("a:1", "within 5s", Answer::Silence, module()),
        ("a:1", "within 5s", Answer::of(valid_manifest()), Answer::Silence),
        ("a:1", "nothing of this name", Answer::status(404), module()),
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

#[test]
fn manifests_that_lie_are_refused() {
    let layer = good_layer();
    let with = |key: &str, value: Value| {
        let mut descriptor = descriptor(TAR, &layer);
        descriptor[key] = value;
        manifest_of(&[descriptor])
    };
    let good = manifest_of(&[descriptor(TAR, &layer)]);
    let by_digest = |content: &[u8]| (sha256(content), Answer::of(content.to_vec()));
    let index = |entries: &[Value]| {
        json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": entries})
            .to_string()
            .into_bytes()
    };
    let wasm_artifact = json!({
        "schemaVersion": 2, "mediaType": MANIFEST,
        "config": {"mediaType": "application/vnd.wasm.config.v0+json"},
        "layers": [descriptor("application/wasm", WASM)],
    });
    let inner = index(&[descriptor(MANIFEST, &good)]);
    let digest_of_zeros = format!("sha256:{}", "0".repeat(64));
    let pinned = format!("team/hooks@{digest_of_zeros}");
    let tagged = "team/hooks:1";
    let not_a_digest =
        |digest: &str| format!("the manifest is wrong: {digest:?} is not a sha256 digest");
    let traversing = not_a_digest("sha256:../../../../etc/passwd");
    let not_empty = vec![
        by_digest(&layer),
        by_digest(&good),
        by_digest(&inner),
        by_digest(WASM),
    ];
    let rows: Vec<(&str, &str, Vec<u8>, Expected<'_>)> = vec![
        (
            "a small size",
            tagged,
            with("size", json!(5)),
            Refused(1, "the answer has more than the 5 bytes that are read"),
        ),
        (
            "a size of 2^60",
            tagged,
            with("size", json!(1_u64 << 60)),
            Refused(
                1,
                "it has 1152921504606846976 bytes, and the limit is 268435456 bytes",
            ),
        ),
        (
            "a negative size",
            tagged,
            with("size", json!(-1)),
            Refused(1, "the answer has more than the 0 bytes that are read"),
        ),
        (
            "a wasm artifact",
            tagged,
            wasm_artifact.to_string().into_bytes(),
            Files(&["hooks/hook.wasm"]),
        ),
        (
            "a path as digest",
            tagged,
            with("digest", json!("sha256:../../../../etc/passwd")),
            Refused(1, &traversing),
        ),
        (
            "another hash",
            tagged,
            with("digest", json!(format!("sha512:{}", "0".repeat(128)))),
            Refused(1, "is not a sha256 digest"),
        ),
        (
            "a digest in capitals",
            tagged,
            with("digest", json!(format!("SHA256:{}", "A".repeat(64)))),
            Refused(1, "is not a sha256 digest"),
        ),
        (
            "an index with one image",
            tagged,
            index(&[descriptor(MANIFEST, &good)]),
            Files(&["a/hook.wasm"]),
        ),
        (
            "an index of an index",
            tagged,
            index(&[descriptor(INDEX, &inner)]),
            Refused(1, "neither an image nor a wasm artifact"),
        ),
        (
            "an index without entries",
            tagged,
            index(&[]),
            Refused(1, "the manifest is wrong: \"\" is not a sha256 digest"),
        ),
        (
            "a million brackets",
            tagged,
            vec![b'['; 1_000_000],
            Refused(1, "the manifest is not JSON: recursion limit exceeded"),
        ),
        (
            "a number of 4,000,000 digits",
            tagged,
            vec![b'1'; 4_000_000],
            Refused(1, "the manifest is not JSON: number out of range"),
        ),
        (
            "a manifest of 5 MiB",
            tagged,
            vec![b' '; 5 << 20],
            Refused(
                1,
                "the answer has more than the 4194304 bytes that are read",
            ),
        ),
        (
            "a digest that the registry does not have",
            &pinned,
            good.clone(),
            Refused(1, "the registry has nothing of this name"),
        ),
    ];
    for (row, reference, manifest, expected) in rows {
        check(
            row,
            &serve(manifest, not_empty.clone()),
            reference,
            &expected,
        );
    }
}

#[test]
fn redirects_lead_to_no_file_and_come_to_an_end() {
    let layer = good_layer();
    let elsewhere = ScriptedRegistry::start(|_| Answer::status(404));
    let metadata = format!("http://{}/latest/meta-data", elsewhere.foreign_host());
    for (row, location, code, part) in [
        ("to a file", "file:///etc/passwd", 3, "blobs/"),
        (
            "to a closed port",
            "http://127.0.0.1:1/x",
            3,
            "Connection refused",
        ),
        ("to a closed port of IPv6", "http://[::1]:1/", 3, "blobs/"),
        (
            "to another scheme",
            "gopher://x/",
            3,
            "unknown scheme: gopher",
        ),
        (
            "to itself",
            "/v2/team/hooks/blobs/x",
            3,
            "too many redirects",
        ),
        (
            "to another server",
            &metadata,
            1,
            "the registry has nothing of this name",
        ),
    ] {
        let redirect = Answer::redirect(307, location);
        let manifest = manifest_of(&[descriptor(TAR, &layer)]);
        let registry = ScriptedRegistry::start(move |path| match path.ends_with("/manifests/1") {
            true => Answer::of(manifest.clone()),
            false => redirect.clone(),
        });
        check(row, &registry, "team/hooks:1", &Refused(code, part));
    }
    let registry = ScriptedRegistry::start(|path| Answer::redirect(302, path));
    check(
        "for ever",
        &registry,
        "team/hooks:1",
        &Refused(3, "too many redirects"),
    );
}

#[test]
fn answers_that_are_no_answers_end() {
    let message = "\u{1b}]0;owned\u{7}\u{1b}[31m\u{202e}\r\nvirt-hook: ok";
    let shown = "answers 500: \"\\u{1b}]0;owned\\u{7}\\u{1b}[31m\\u{202e}\\r\\nvirt-hook: ok\"";
    // The client limits both the number of headers and their bytes. Which limit a response with many large headers
    // meets first depends on the sizes of its reads, so a response exceeds one of them only.
    let with_headers = |count: usize, value_bytes: usize| {
        let header = |number| format!("X-{number}: {}\r\n", "x".repeat(value_bytes));
        Answer::Response {
            status: 200,
            headers: (0..count).map(header).collect(),
            body: Vec::new(),
            content_length: None,
        }
    };
    for (row, seconds, answer, code, part) in [
        (
            "control characters in an error",
            "120",
            Answer::error(message),
            1,
            shown,
        ),
        (
            "a byte each 0.3 s",
            "3",
            Answer::Trickle(good_layer()),
            3,
            "no complete answer within 3s",
        ),
        (
            "5,000 headers of 1 byte",
            "120",
            with_headers(5_000, 1),
            3,
            "too many headers",
        ),
        (
            "50 headers of 10,000 bytes",
            "120",
            with_headers(50, 10_000),
            3,
            "response header is too big",
        ),
    ] {
        let registry = ScriptedRegistry::start(move |_| answer.clone());
        let temp_dir = tempfile::tempdir().unwrap();
        let into = temp_dir.path().join("into");
        let pulled = pull_within(seconds, &registry, &into, "team/hooks:1");
        assert_outcome(row, temp_dir.path(), &pulled, &Refused(code, part));
    }
}
