//! `push` and `pull` with a real registry (docker-registry), and with registries that lie.
#![allow(clippy::unwrap_used)]

mod images;
mod lying_registry;
#[path = "../pod/mod.rs"]
mod pod;
#[path = "../program/mod.rs"]
mod program;
mod real_registry;
mod token_server;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};

use lying_registry::{Answer, LyingRegistry, manifest_of, sha256};
use program::{ProgramOutput, program, signing_key, text};
use real_registry::{Access, RealRegistry};
use serde_json::{Value, json};
use token_server::TokenServer;

fn virt_hook(arguments: &[&str], input: &str) -> ProgramOutput {
    let mut child = program()
        .args(arguments)
        // Credentials of whoever runs the tests.
        .env("REGISTRY_AUTH_FILE", "/nonexistent/auth.json")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(input.as_bytes()).unwrap();
    drop(stdin);
    child.wait_with_output().unwrap().into()
}

/// A layout of the smbios example, signed, with a hook.yaml; and the public key.
fn layout(place: &Path, more: &[&str]) -> (PathBuf, PathBuf) {
    let hook = place.join("banner");
    fs::create_dir_all(&hook).unwrap();
    fs::copy(pod::example("smbios-hook"), hook.join("hook.wasm")).unwrap();
    fs::write(hook.join("hook.yaml"), "priority: 7\n").unwrap();
    let key = signing_key(place, "key");
    let public = key.with_extension("pub");
    let module = hook.join("hook.wasm");
    virt_hook(&["sign", text(&module), "--key", text(&key), "--json"], "").result();
    let layout = place.join("layout");
    let arguments = [
        &["image", text(&hook), "--out", text(&layout), "--json"],
        more,
    ]
    .concat();
    virt_hook(&arguments, "").result();
    (layout, public)
}

#[test]
fn an_image_survives_the_way_through_a_registry() {
    let place = tempfile::tempdir().unwrap();
    let registry = RealRegistry::start(Access::Anyone);
    let (layout, public) = layout(place.path(), &[]);
    let reference = registry.reference("hooks:1");
    let push = ["push", text(&layout), &reference, "--plain-http", "--json"];
    let pushed = virt_hook(&push, "").result();
    // One layer, and a configuration for each of three architectures.
    let blobs = |report: &Value| (report["uploaded"].as_u64(), report["present"].as_u64());
    assert_eq!(blobs(&pushed), (Some(4), Some(0)));
    let again = virt_hook(&push, "").result();
    assert_eq!(blobs(&again), (Some(0), Some(4)));

    let pinned = pushed["reference"].as_str().unwrap();
    // Nobody signs a hook.yaml: only a digest, or the flag, lets it through.
    for (number, more) in [&[pinned][..], &[&reference, "--unsigned-settings"]]
        .into_iter()
        .enumerate()
    {
        let into = place.path().join(format!("pulled-{number}"));
        let pull = [
            &["pull", "--plain-http", "--json", "--key", text(&public)][..],
            &["--into", text(&into)],
            more,
        ]
        .concat();
        let pulled = virt_hook(&pull, "").result();
        assert_eq!(pulled["reference"], pushed["reference"]);
        assert_eq!(pulled["hooks"][0]["hookYaml"], true);
        for file in ["hook.wasm", "hook.yaml", "hook.wasm.sigstore.json"] {
            let original = fs::read(place.path().join("banner").join(file)).unwrap();
            assert_eq!(
                fs::read(into.join("banner").join(file)).unwrap(),
                original,
                "{file}"
            );
        }
        let again = virt_hook(&pull, "");
        assert_eq!(again.code, 2, "{}", again.err);
        assert!(again.err.contains("banner exists"), "{}", again.err);
    }
    let other = place.path().join("other");
    fs::create_dir(&other).unwrap();
    let (_, other_key) = self::layout(&other, &["--architecture", "amd64"]);
    let into = place.path().join("unwanted");
    for (key, reference, part) in [
        (&other_key, pinned, "did not make it"),
        (&public, &reference, "hook.yaml is not signed"),
    ] {
        let refused = virt_hook(
            &[
                "pull",
                reference,
                "--plain-http",
                "--key",
                text(key),
                "--into",
                text(&into),
            ],
            "",
        );
        assert_eq!(refused.code, 1, "{}", refused.err);
        assert!(refused.err.contains(part), "{part}: {}", refused.err);
        assert!(!into.exists());
    }
}

#[test]
fn artifacts_keep_their_signature() {
    let place = tempfile::tempdir().unwrap();
    let registry = RealRegistry::start(Access::Anyone);
    let (layout, public) = layout(place.path(), &["--artifact"]);
    let reference = registry.reference("team/banner_hook:1");
    virt_hook(
        &["push", text(&layout), &reference, "--plain-http", "--json"],
        "",
    )
    .result();
    let into = place.path().join("pulled");
    let pull = [
        "pull",
        &reference,
        "--plain-http",
        "--json",
        "--key",
        text(&public),
        "--into",
        text(&into),
    ];
    let pulled = virt_hook(&pull, "").result();
    assert_eq!(pulled["kind"], "wasm artifact");
    let module = fs::read(into.join("banner-hook/hook.wasm")).unwrap();
    assert_eq!(
        module,
        fs::read(place.path().join("banner/hook.wasm")).unwrap()
    );
}

#[test]
fn a_registry_with_tls_and_passwords_is_asked_with_them() {
    let place = tempfile::tempdir().unwrap();
    let registry = RealRegistry::start(Access::AliceWithTls);
    let (layout, _) = layout(place.path(), &["--architecture", "amd64"]);
    let reference = registry.reference("hooks:1");
    let certificate = registry.certificate();
    let push = ["push", text(&layout), &reference, "--json"];
    let trusted = [&push[..], &["--ca", text(&certificate)]].concat();
    let as_alice = [&trusted[..], &["--username", "alice", "--password-stdin"]].concat();
    for (arguments, password, code, part) in [
        (&push[..], "", 3, "certificate"),
        (&trusted, "", 1, "refuses access (401)"),
        (&as_alice, "wrong", 1, "refuses access (401)"),
    ] {
        let refused = virt_hook(arguments, password);
        assert_eq!(refused.code, code, "{}", refused.err);
        assert!(refused.err.contains(part), "{part}: {}", refused.err);
    }
    let pushed = virt_hook(&as_alice, "secret\n").result();
    assert_eq!(pushed["uploaded"], 2);
    // What `podman login` stores.
    let stored = place.path().join("auth.json");
    let auths = json!({"auths": {registry.host(): {"auth": "YWxpY2U6c2VjcmV0"}}});
    fs::write(&stored, auths.to_string()).unwrap();
    let into = place.path().join("pulled");
    let output = program()
        .args([
            "pull",
            &reference,
            "--ca",
            text(&certificate),
            "--into",
            text(&into),
        ])
        .env("REGISTRY_AUTH_FILE", &stored)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(into.join("banner/hook.wasm").is_file());
}

#[test]
fn a_registry_with_a_token_service_gets_tokens_and_no_passwords() {
    let place = tempfile::tempdir().unwrap();
    let service = TokenServer::start(place.path());
    let registry = RealRegistry::start(Access::Tokens(&service));
    let (layout, _) = layout(place.path(), &["--architecture", "amd64"]);
    let reference = registry.reference("team/hooks:1");
    let anonymous = ["push", text(&layout), &reference, "--plain-http", "--json"];
    let as_alice = [&anonymous[..], &["--username", "alice", "--password-stdin"]].concat();
    for (arguments, password) in [(&anonymous[..], ""), (&as_alice, "wrong")] {
        let refused = virt_hook(arguments, password);
        assert_eq!(refused.code, 1, "{}", refused.err);
        assert!(refused.err.contains("/token?scope="), "{}", refused.err);
        assert!(
            refused.err.contains("refuses access (401)"),
            "{}",
            refused.err
        );
    }
    assert_eq!(service.scopes(), Vec::<String>::new());
    let pushed = virt_hook(&as_alice, "secret\n").result();
    assert_eq!(pushed["uploaded"], 2);
    let into = place.path().join("pulled");
    let pull = [
        "pull",
        &reference,
        "--plain-http",
        "--username",
        "alice",
        "--password-stdin",
        "--into",
        text(&into),
        "--json",
    ];
    let pulled = virt_hook(&pull, "secret").result();
    assert_eq!(pulled["reference"], pushed["reference"]);
    assert!(into.join("banner/hook.wasm").is_file());
    let scopes = service.scopes();
    // The registry's order of the actions is not defined.
    let is_push = |scope: &String| {
        let actions = scope.strip_prefix("repository:team/hooks:");
        matches!(actions, Some("pull,push" | "push,pull"))
    };
    let is_pull = |scope: &String| scope == "repository:team/hooks:pull";
    assert!(
        scopes.iter().all(|scope| is_push(scope) || is_pull(scope)),
        "{scopes:?}"
    );
    assert!(scopes.iter().any(is_push), "{scopes:?}");
    assert_eq!(scopes.last().unwrap(), "repository:team/hooks:pull");
}

/// Pulls as alice from a registry that answers as the test says, with arguments after the others.
fn pull_as_alice(registry: &LyingRegistry, into: &Path, more: &[&str]) -> ProgramOutput {
    let reference = format!("{}/a:1", registry.host());
    let pull = ["pull", &reference, "--plain-http", "--into", text(into)];
    let alice = ["--username", "alice", "--password-stdin"];
    virt_hook(&[&pull[..], &alice, more].concat(), "secret")
}

#[test]
fn credentials_are_not_sent_to_foreign_token_services() {
    let place = tempfile::tempdir().unwrap();
    let into = place.path().join("into");
    let thief = LyingRegistry::start(|_| Answer::of(br#"{"token": "x"}"#.to_vec()));
    let foreign = thief.foreign_host();
    let bearer = |realm: &str, more: &str| format!("Bearer realm=\"{realm}\",service=\"s\"{more}");
    let elsewhere = bearer(&format!("http://{foreign}/token"), "");
    let with_tls = bearer(&format!("https://{foreign}/token"), "");
    for (challenge, more, part) in [
        (&elsewhere, &[][..], "is no https address"),
        (
            &elsewhere,
            &["--token-host", "127.0.0.1"],
            "is no https address",
        ),
        (&with_tls, &[], "on another host, \"127.0.0.1\""),
    ] {
        let answer = Answer::challenge(challenge);
        let registry = LyingRegistry::start(move |_| answer.clone());
        let refused = pull_as_alice(&registry, &into, more);
        assert_eq!(refused.code, 1, "{}", refused.err);
        assert!(refused.err.contains(part), "{part}: {}", refused.err);
        assert_eq!(registry.authorizations(), [None]);
    }
    // Its own host, which sends the request elsewhere.
    for status in [301, 302, 307, 308] {
        let service = LyingRegistry::start({
            let thief = format!("http://{foreign}/steal");
            move |_| Answer::redirect(status, &thief)
        });
        let challenge = bearer(&format!("http://{}/token", service.host()), "");
        let registry = LyingRegistry::start(move |_| Answer::challenge(&challenge));
        let refused = pull_as_alice(&registry, &into, &[]);
        assert_eq!(refused.code, 1, "{}", refused.err);
        assert!(
            refused.err.contains("redirects, which is not followed"),
            "{}",
            refused.err
        );
    }
    let other = bearer("http://localhost/token", ",scope=\"repository:b:pull\"");
    let registry = LyingRegistry::start(move |_| Answer::challenge(&other));
    let refused = pull_as_alice(&registry, &into, &[]);
    assert!(
        refused.err.contains("another repository"),
        "{}",
        refused.err
    );
    assert_eq!(thief.authorizations(), Vec::<Option<String>>::new());
    assert!(!into.exists());
}

#[test]
fn a_blob_that_lies_elsewhere_is_read_without_credentials() {
    let place = tempfile::tempdir().unwrap();
    let into = place.path().join("into");
    let storage = LyingRegistry::start(|_| Answer::of(WASM.to_vec()));
    let blob = format!("http://{}/blob", storage.foreign_host());
    let manifest = manifest_of(OLD, WASM, WASM.len());
    let asked = AtomicUsize::new(0);
    let registry = LyingRegistry::start(move |path| match path.contains("/manifests/") {
        true if asked.fetch_add(1, Ordering::SeqCst) == 0 => Answer::challenge("Basic realm=\"x\""),
        true => Answer::of(manifest.clone()),
        false => Answer::redirect(307, &blob),
    });
    let pulled = pull_as_alice(&registry, &into, &[]);
    assert_eq!(pulled.code, 0, "{}", pulled.err);
    assert_eq!(fs::read(into.join("a/hook.wasm")).unwrap(), WASM);
    let alice = Some("Basic YWxpY2U6c2VjcmV0".to_owned());
    assert_eq!(registry.authorizations(), [None, alice.clone(), alice]);
    assert_eq!(storage.authorizations(), [None]);
}

pub(crate) const WASM: &[u8] = b"\0asm\x0d\0\x01\0";
const OLD: [&str; 2] = [
    "application/vnd.wasm.config.v1+json",
    "application/vnd.wasm.content.layer.v1+wasm",
];

pub(crate) fn pull(registry: &LyingRegistry, into: &Path, reference: &str) -> ProgramOutput {
    pull_within("120", registry, into, reference)
}

fn pull_within(
    seconds: &str,
    registry: &LyingRegistry,
    into: &Path,
    reference: &str,
) -> ProgramOutput {
    let reference = format!("{}/{reference}", registry.host());
    let pull = [
        "pull",
        &reference,
        "--plain-http",
        "--timeout",
        seconds,
        "--into",
        text(into),
        "--json",
    ];
    virt_hook(&pull, "")
}

#[test]
fn older_wasm_artifacts_are_pulled() {
    let place = tempfile::tempdir().unwrap();
    let manifest = manifest_of(OLD, WASM, WASM.len());
    let registry = LyingRegistry::start(move |path| match path {
        "/v2/a/manifests/1" => Answer::of(manifest.clone()),
        _ => Answer::of(WASM.to_vec()),
    });
    let into = place.path().join("into");
    let pulled = pull(&registry, &into, "a:1").result();
    assert_eq!(pulled["kind"], "old wasm artifact");
    assert_eq!(fs::read(into.join("a/hook.wasm")).unwrap(), WASM);
}

#[test]
fn what_a_registry_lies_about_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let into = place.path().join("into");
    let right = || manifest_of(OLD, WASM, WASM.len());
    let pinned = format!("a@{}", sha256(&right()));
    let module = || Answer::of(WASM.to_vec());
    let cases: Vec<(&str, &str, Answer, Answer)> = vec![
        // The reference, a part of the error, the manifest, the blob.
        (&pinned, "has the digest", Answer::of(manifest_of(OLD, b"\0asm", 4)), module()),
        ("a:1", "has the digest", Answer::of(right()), Answer::of(b"\0asmotherx"[..8].to_vec())),
        ("a:1", "v2/a/blobs/sha256", Answer::of(right()), module().claiming(100)),
        ("a:1", "more than the 8 bytes", Answer::of(right()), Answer::of([WASM, WASM].concat())),
        ("a:1", "more than the 4194304 bytes", Answer::of(vec![b' '; 5 << 20]), module()),
        ("a:1", "more than the 33554432 bytes", Answer::of(manifest_of(OLD, WASM, 1 << 40)), module()),
        ("a:1", "no JSON", Answer::of(b"hello".to_vec()), module()),
        ("a:1", "v2/a/manifests/1", Answer::of(right()).claiming(1 << 20), module()),
        ("a:1", "within 5s", Answer::Silence, module()),
        ("a:1", "within 5s", Answer::of(right()), Answer::Silence),
        ("a:1", "nothing of this name", Answer::status(404), module()),
        ("a:1", "answers 500: \"gone \\u{1b}[2J\"", Answer::error("gone \u{1b}[2J"), module()),
        ("a:1", "neither an image nor", Answer::of(manifest_of(["x\u{1b}", "y"], WASM, 8)), module()),
        ("a:1", "no sha256 digest", Answer::of(
            json!({"config": {"mediaType": OLD[0]}, "layers": [{"mediaType": OLD[1], "digest": "../x"}]})
                .to_string().into_bytes()), module()),
        ("a:1", "one layer", Answer::of(
            json!({"config": {"mediaType": OLD[0]}, "layers": []}).to_string().into_bytes()), module()),
        ("a:1", "no WebAssembly", Answer::of(manifest_of(OLD, b"#!/bin/s", 8)),
            Answer::of(b"#!/bin/s".to_vec())),
        ("a:1", "no https address", Answer::challenge("Bearer realm=\"https://a@b/\""), module()),
    ];
    for (reference, part, manifest, blob) in cases {
        let registry = LyingRegistry::start(move |path| match path.contains("/manifests/") {
            true => manifest.clone(),
            false => blob.clone(),
        });
        // A short deadline only where it is to pass: the machine may be busy.
        let seconds = if part == "within 5s" { "5" } else { "120" };
        let refused = pull_within(seconds, &registry, &into, reference);
        assert!([1, 3].contains(&refused.code), "{part}: {}", refused.err);
        assert!(refused.err.contains(part), "{part}: {}", refused.err);
        assert_eq!(refused.err.lines().count(), 1, "{}", refused.err);
        assert!(!into.exists(), "{part}");
    }
}

#[test]
fn what_is_no_reference_or_layout_is_refused_at_once() {
    let place = tempfile::tempdir().unwrap();
    let at = text(place.path());
    for (arguments, part) in [
        (&["push", at, "hooks:1"][..], "the registry is missing"),
        (&["push", at, "r.example/hooks:1"], "no OCI image layout"),
        (&["pull", "hooks", "--into", at], "the registry is missing"),
        (
            &["pull", "r.example/h", "--into", at, "--ca", "/nonexistent"],
            "/nonexistent",
        ),
        (
            &["pull", "r.example/h", "--into", at, "--key", "/nonexistent"],
            "/nonexistent",
        ),
    ] {
        let refused = virt_hook(arguments, "");
        assert_eq!(refused.code, 2, "{}", refused.err);
        assert!(refused.err.contains(part), "{part}: {}", refused.err);
    }
}
