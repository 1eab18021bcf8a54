//! Registries with TLS, passwords and tokens.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde_json::json;

use crate::test_registries::built_images::Expected::Refused;
use crate::test_registries::built_images::assert_outcome;
use crate::test_registries::certificate::Certificate;
use crate::test_registries::docker_registry::{Access, DockerRegistry};
use crate::test_registries::scripted_registry::{Answer, ScriptedRegistry, manifest_with_layer};
use crate::test_registries::token_service::TokenService;
use crate::virt_hook_program::{ProgramOutput, program, text};
use crate::{OLD_WASM_MEDIA_TYPES, WASM, virt_hook, write_layout};

#[test]
fn push_and_pull_use_tls_and_passwords() {
    let temp_dir = tempfile::tempdir().unwrap();
    let registry = DockerRegistry::start(Access::AliceWithTls(Certificate::SelfSigned));
    let (layout, _) = write_layout(temp_dir.path(), &["--architecture", "amd64"]);
    let reference = registry.reference("hooks:1");
    let certificate = registry.certificate();
    let push = ["push", text(&layout), &reference, "--json"];
    let trusted = [&push[..], &["--ca", text(&certificate)]].concat();
    let as_alice = [&trusted[..], &["--username", "alice", "--password-stdin"]].concat();
    for (arguments, password, code, part) in [
        (&push[..], "", 3, "give the certificate of the registry"),
        (&trusted, "", 1, "refuses access (401)"),
        (&as_alice, "wrong", 1, "refuses access (401)"),
    ] {
        let refused = virt_hook(arguments, password);
        assert_eq!(refused.code, code, "{}", refused.err);
        assert!(refused.err.contains(part), "{part}: {}", refused.err);
    }
    let pushed = virt_hook(&as_alice, "secret\n").result();
    assert_eq!(pushed["uploaded"], 2);
    // The file that `podman login` writes.
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

/// The trust in a certificate that is given with --ca, whether or not it is a CA's: for its time and its names.
#[test]
fn given_certificate_is_trusted_for_its_time_and_its_names() {
    use Certificate::{
        ExpiredSelfSignedCa, Issued, SelfSigned, SelfSignedCa, SelfSignedCaOfAnotherHost,
    };
    let temp_dir = tempfile::tempdir().unwrap();
    let (layout, _) = write_layout(temp_dir.path(), &["--architecture", "amd64"]);
    // Signed by itself, of the same name as the registry's, and given in its place.
    let foreign = temp_dir.path().join("foreign");
    fs::create_dir(&foreign).unwrap();
    SelfSignedCa.write(&foreign);
    let foreign = foreign.join("tls.crt");
    const TRUSTED: (i32, &str) = (1, "refuses access (401)");
    const NOT_TRUSTED: (i32, &str) = (3, "or of its issuer, with --ca FILE");
    for (certificate, given, (code, part)) in [
        (SelfSigned, Some("tls.crt"), TRUSTED),
        (SelfSignedCa, Some("tls.crt"), TRUSTED),
        (SelfSignedCa, Some(text(&foreign)), NOT_TRUSTED),
        (SelfSignedCa, None, NOT_TRUSTED),
        (
            SelfSignedCaOfAnotherHost,
            Some("tls.crt"),
            (3, "not valid for name \"localhost\""),
        ),
        (ExpiredSelfSignedCa, Some("tls.crt"), (3, "expired")),
        (Issued, Some("ca.crt"), TRUSTED),
        (Issued, Some("tls.crt"), TRUSTED),
        (Issued, Some(text(&foreign)), NOT_TRUSTED),
        (Issued, None, NOT_TRUSTED),
    ] {
        let registry = DockerRegistry::start(Access::AliceWithTls(certificate));
        let reference = registry.reference("hooks:1");
        let given = given.map(|name| registry.directory().join(name));
        let ca = given.as_deref().map(|path| ["--ca", text(path)]);
        let push = [
            &["push", text(&layout), &reference][..],
            ca.as_ref().map_or(&[], |ca| &ca[..]),
        ]
        .concat();
        let refused = virt_hook(&push, "");
        let what = format!("{certificate:?} {given:?}: {}", refused.err);
        assert_eq!(refused.code, code, "{what}");
        assert!(refused.err.contains(part), "{part}: {what}");
        assert!(!refused.err.contains("OtherError"), "{what}");
    }
}

#[test]
fn registry_with_and_without_tls_names_the_option() {
    let temp_dir = tempfile::tempdir().unwrap();
    let (layout, _) = write_layout(temp_dir.path(), &["--architecture", "amd64"]);
    let without_tls = DockerRegistry::start(Access::Anyone);
    let with_tls = DockerRegistry::start(Access::AliceWithTls(Certificate::SelfSigned));
    for (registry, more, code, part) in [
        (&without_tls, &[][..], 3, "give --plain-http"),
        (&with_tls, &["--plain-http"], 1, "leave out --plain-http"),
    ] {
        let reference = registry.reference("hooks:1");
        let push = [&["push", text(&layout), &reference][..], more].concat();
        let refused = virt_hook(&push, "");
        assert_eq!(refused.code, code, "{}", refused.err);
        assert!(refused.err.contains(part), "{part}: {}", refused.err);
    }
}

#[test]
fn tokens_and_no_passwords_are_sent_to_a_registry_with_a_token_service() {
    let temp_dir = tempfile::tempdir().unwrap();
    let service = TokenService::start(temp_dir.path());
    let registry = DockerRegistry::start(Access::Tokens(&service));
    let (layout, _) = write_layout(temp_dir.path(), &["--architecture", "amd64"]);
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
    let (layout, _) = write_layout(temp_dir.path(), &["--architecture", "amd64"]);
    let may_push = Arc::new(AtomicBool::new(false));
    let service = ScriptedRegistry::start({
        let may_push = Arc::clone(&may_push);
        move |path| {
            may_push.fetch_or(path.contains("push"), Ordering::SeqCst);
            Answer::of(br#"{"token": "x"}"#.to_vec())
        }
    });
    let realm = format!("http://{}/token", service.host());
    let challenge = format!("Bearer realm=\"{realm}\",service=\"s\",scope=\"repository:a:pull\"");
    let registry = ScriptedRegistry::start(move |path| match may_push.load(Ordering::SeqCst) {
        false => Answer::challenge(&challenge),
        true if path.contains("/manifests/") => Answer::status(201),
        // The registry has all blobs already.
        true => Answer::status(200),
    });
    let reference = format!("{}/a:1", registry.host());
    let push = ["push", text(&layout), &reference, "--plain-http"];
    let alice = ["--username", "alice", "--password-stdin", "--json"];
    let pushed = virt_hook(&[&push[..], &alice].concat(), "secret").result();
    assert_eq!(pushed["present"], 2);
}

/// Pulls as alice, with further arguments.
fn pull_as_alice(
    registry: &ScriptedRegistry,
    image: &str,
    into: &Path,
    more: &[&str],
) -> ProgramOutput {
    let reference = format!("{}/{image}", registry.host());
    let pull = ["pull", &reference, "--plain-http", "--into", text(into)];
    let alice = ["--username", "alice", "--password-stdin"];
    virt_hook(&[&pull[..], &alice, more].concat(), "secret")
}

#[test]
fn credentials_are_not_sent_to_foreign_token_services() {
    let temp_dir = tempfile::tempdir().unwrap();
    let into = temp_dir.path().join("into");
    let foreign_service = ScriptedRegistry::start(|_| Answer::of(br#"{"token": "x"}"#.to_vec()));
    let foreign = foreign_service.foreign_host();
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
        let registry = ScriptedRegistry::start(move |_| answer.clone());
        let refused = pull_as_alice(&registry, "a:1", &into, more);
        assert_eq!(refused.code, 1, "{}", refused.err);
        assert!(refused.err.contains(part), "{part}: {}", refused.err);
        assert_eq!(registry.authorizations(), [None]);
    }
    // A token service on the registry's own host that redirects to another host.
    for status in [301, 302, 307, 308] {
        let service = ScriptedRegistry::start({
            let foreign_service = format!("http://{foreign}/steal");
            move |_| Answer::redirect(status, &foreign_service)
        });
        let challenge = bearer(&format!("http://{}/token", service.host()), "");
        let registry = ScriptedRegistry::start(move |_| Answer::challenge(&challenge));
        let refused = pull_as_alice(&registry, "a:1", &into, &[]);
        assert_eq!(refused.code, 1, "{}", refused.err);
        assert!(
            refused.err.contains("redirects, which is not followed"),
            "{}",
            refused.err
        );
    }
    let other = bearer("http://localhost/token", ",scope=\"repository:b:pull\"");
    let registry = ScriptedRegistry::start(move |_| Answer::challenge(&other));
    let refused = pull_as_alice(&registry, "a:1", &into, &[]);
    assert!(
        refused.err.contains("another repository"),
        "{}",
        refused.err
    );
    assert_eq!(
        foreign_service.authorizations(),
        Vec::<Option<String>>::new()
    );
    assert!(!into.exists());
}

#[test]
fn a_blob_on_another_host_is_read_without_credentials() {
    let temp_dir = tempfile::tempdir().unwrap();
    let into = temp_dir.path().join("into");
    let storage = ScriptedRegistry::start(|_| Answer::of(WASM.to_vec()));
    let blob = format!("http://{}/blob", storage.foreign_host());
    let manifest = manifest_with_layer(OLD_WASM_MEDIA_TYPES, WASM, WASM.len());
    let request_count = AtomicUsize::new(0);
    let registry = ScriptedRegistry::start(move |path| match path.contains("/manifests/") {
        true if request_count.fetch_add(1, Ordering::SeqCst) == 0 => {
            Answer::challenge("Basic realm=\"x\"")
        }
        true => Answer::of(manifest.clone()),
        false => Answer::redirect(307, &blob),
    });
    let pulled = pull_as_alice(&registry, "a:1", &into, &[]);
    assert_eq!(pulled.code, 0, "{}", pulled.err);
    assert_eq!(fs::read(into.join("a/hook.wasm")).unwrap(), WASM);
    let alice = Some("Basic YWxpY2U6c2VjcmV0".to_owned());
    assert_eq!(registry.authorizations(), [None, alice.clone(), alice]);
    assert_eq!(storage.authorizations(), [None]);
}

#[test]
fn the_password_goes_to_the_registrys_own_host_alone() {
    let other = ScriptedRegistry::start(|_| Answer::of(br#"{"token": "x"}"#.to_vec()));
    let port = other.host().split_once(':').unwrap().1.to_owned();
    let not_https = "its service for tokens, ";
    // HOST is the registry's host name, localhost; 127.0.0.1 is another one.
    for (realm, part, is_asked) in [
        ("http://127.0.0.1:PORT/t", not_https, false),
        (
            "http://localhost:PORT/t",
            "the registry refuses access (401)",
            true,
        ),
        ("http://localhost@127.0.0.1:PORT/t", not_https, false),
        ("http://127.0.0.1:PORT/t#localhost", not_https, false),
        ("http://127.0.0.1\\@localhost:PORT/t", not_https, false),
        ("HTTP://localhost.:PORT/t", not_https, false),
        ("http://0x7f000001:PORT/t", not_https, false),
        ("http://[::1]:PORT/t", not_https, false),
        ("file:///etc/passwd", not_https, false),
        ("//127.0.0.1:PORT/t", not_https, false),
    ] {
        let before = other.authorizations().len();
        let realm = realm.replace("PORT", &port);
        let challenge = Answer::challenge(&format!("Bearer realm=\"{realm}\",service=\"s\""));
        let registry = ScriptedRegistry::start(move |_| challenge.clone());
        let temp_dir = tempfile::tempdir().unwrap();
        let refused = pull_as_alice(
            &registry,
            "team/hooks:1",
            &temp_dir.path().join("into"),
            &[],
        );
        assert_outcome(&realm, temp_dir.path(), &refused, &Refused(1, part));
        assert_eq!(other.authorizations().len() > before, is_asked, "{realm}");
    }
}

#[test]
fn pull_asks_for_nothing_but_pull() {
    let asked = "the registry refuses access (401): log in with `podman login` or `docker login`, or give --username";
    let refused = "which is another repository";
    for (scope, part) in [
        ("repository:other/secret:pull", refused),
        (
            "repository:team/hooks:pull repository:other/secret:pull",
            refused,
        ),
        ("registry:catalog:*", asked),
        ("repository:team/hooks:*", asked),
        ("repository:team/hooks:delete,push", asked),
        ("repository:team/hooks:pull", asked),
        ("repository:team/hooks/../x:pull", refused),
    ] {
        let service = ScriptedRegistry::start(|_| Answer::of(br#"{"token": "x"}"#.to_vec()));
        let challenge = format!(
            "Bearer realm=\"http://{}/t\",service=\"s\",scope=\"{scope}\"",
            service.host()
        );
        let registry = ScriptedRegistry::start(move |_| Answer::challenge(&challenge));
        let temp_dir = tempfile::tempdir().unwrap();
        let output = pull_as_alice(
            &registry,
            "team/hooks:1",
            &temp_dir.path().join("into"),
            &[],
        );
        assert_outcome(scope, temp_dir.path(), &output, &Refused(1, part));
        let expected: &[&str] = match part == asked {
            true => &["/t?scope=repository%3Ateam%2Fhooks%3Apull&service=s"],
            false => &[],
        };
        assert_eq!(service.paths(), expected, "{scope}");
    }
}
