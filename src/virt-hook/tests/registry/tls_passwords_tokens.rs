//! Registries with TLS, passwords and tokens.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde_json::json;

use crate::lying_registry::{Answer, LyingRegistry, manifest_of};
use crate::registry_process::{Access, RealRegistry};
use crate::token_server::TokenServer;
use crate::virt_hook_program::{ProgramOutput, program, text};
use crate::{OLD, WASM, layout, virt_hook};

#[test]
fn a_registry_with_tls_and_passwords_is_asked_with_them() {
    let temp_dir = tempfile::tempdir().unwrap();
    let registry = RealRegistry::start(Access::AliceWithTls);
    let (layout, _) = layout(temp_dir.path(), &["--architecture", "amd64"]);
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
    let stored = temp_dir.path().join("auth.json");
    let auths = json!({"auths": {registry.host(): {"auth": "YWxpY2U6c2VjcmV0"}}});
    fs::write(&stored, auths.to_string()).unwrap();
    let into = temp_dir.path().join("pulled");
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
    let temp_dir = tempfile::tempdir().unwrap();
    let service = TokenServer::start(temp_dir.path());
    let registry = RealRegistry::start(Access::Tokens(&service));
    let (layout, _) = layout(temp_dir.path(), &["--architecture", "amd64"]);
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
    let into = temp_dir.path().join("pulled");
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

/// Quay asks for pull at the first request of a push, and refuses such a token where there is no repository yet.
#[test]
fn a_push_asks_for_a_token_to_push_whatever_the_registry_asks_for() {
    let temp_dir = tempfile::tempdir().unwrap();
    let (layout, _) = layout(temp_dir.path(), &["--architecture", "amd64"]);
    let may_push = Arc::new(AtomicBool::new(false));
    let service = LyingRegistry::start({
        let may_push = Arc::clone(&may_push);
        move |path| {
            may_push.fetch_or(path.contains("push"), Ordering::SeqCst);
            Answer::of(br#"{"token": "x"}"#.to_vec())
        }
    });
    let realm = format!("http://{}/token", service.host());
    let challenge = format!("Bearer realm=\"{realm}\",service=\"s\",scope=\"repository:a:pull\"");
    let registry = LyingRegistry::start(move |path| match may_push.load(Ordering::SeqCst) {
        false => Answer::challenge(&challenge),
        true if path.contains("/manifests/") => Answer::status(201),
        // It has all blobs.
        true => Answer::status(200),
    });
    let reference = format!("{}/a:1", registry.host());
    let push = ["push", text(&layout), &reference, "--plain-http"];
    let alice = ["--username", "alice", "--password-stdin", "--json"];
    let pushed = virt_hook(&[&push[..], &alice].concat(), "secret").result();
    assert_eq!(pushed["present"], 2);
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
    let temp_dir = tempfile::tempdir().unwrap();
    let into = temp_dir.path().join("into");
    let thief = LyingRegistry::start(|_| Answer::of(br#"{"token": "x"}"#.to_vec()));
    let foreign = thief.foreign_host();
    let bearer = |realm: &str, more: &str| format!("Bearer realm=\"{realm}\",service=\"s\"{more}");
    let elsewhere = bearer(&format!("http://{foreign}/token"), "");
    let with_tls = bearer(&format!("https://{foreign}/token"), "");
    for (challenge, more, part) in [
        (&elsewhere, &[][..], "is not an https address"),
        (
            &elsewhere,
            &["--token-host", "127.0.0.1"],
            "is not an https address",
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
    let temp_dir = tempfile::tempdir().unwrap();
    let into = temp_dir.path().join("into");
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
