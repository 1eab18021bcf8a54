//! `keys` in the operator's policy: modules that none of these keys signed do not run.
#![allow(clippy::unwrap_used)]

mod fixture;

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use fixture::HookDirs;
use hook_host::{CollectConfig, PolicySource, StandingHooks, collect};
use sigstore_bundle::{Bundle, SigningKey};

/// The name of the signature's file.
const SIGNATURE_FILE: &str = "odd.wasm.sigstore.json";

/// A key that signs, and its public key in PEM.
struct KeyPair {
    signing: SigningKey,
    public: String,
}

impl KeyPair {
    fn new() -> Self {
        let dirs = tempfile::tempdir().unwrap();
        for arguments in [
            "genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out key",
            "pkey -in key -pubout -out public",
        ] {
            let mut openssl = Command::new("openssl");
            openssl.args(arguments.split(' ')).current_dir(dirs.path());
            assert!(openssl.output().unwrap().status.success());
        }
        let read = |name| fs::read_to_string(dirs.path().join(name)).unwrap();
        Self {
            signing: SigningKey::from_pem(&read("key")).unwrap(),
            public: read("public"),
        }
    }

    fn sign(&self, content: &[u8]) -> String {
        Bundle::sign(content, &self.signing).unwrap().render()
    }

    /// The public key as a flow scalar of YAML.
    fn yaml(&self) -> String {
        serde_json::to_string(&self.public).unwrap()
    }
}

fn module() -> Vec<u8> {
    fs::read(fixture::misbehaving_hook()).unwrap()
}

/// The refusal of the misbehaving hook with this signature under this policy; `None` if it runs.
async fn refusal(signature: Option<&str>, policy: &str) -> Option<String> {
    let dirs = HookDirs::new();
    if let Some(signature) = signature {
        dirs.put_modified_an_hour_ago("h", SIGNATURE_FILE, signature.as_bytes());
    }
    dirs.put_modified_an_hour_ago("h", "odd.wasm", &module());
    let path = dirs.at("../policy", "p.yaml");
    fs::write(&path, policy).unwrap();
    let config = CollectConfig {
        policy: PolicySource::File(path),
        namespace: "infra".to_owned(),
        ..dirs.config(1)
    };
    let counted = collect(config).await.err().map(|error| error.to_string());
    // The same modules as standing hooks.
    let config = CollectConfig {
        policy: PolicySource::File(dirs.at("../policy", "p.yaml")),
        namespace: "infra".to_owned(),
        standing: StandingHooks::In(dirs.hooks()),
        hooks_dir: PathBuf::from("/nonexistent"),
        ..dirs.config(0)
    };
    let standing = collect(config).await.err().map(|error| error.to_string());
    assert_eq!(
        counted.is_some(),
        standing.is_some(),
        "{counted:?} {standing:?}"
    );
    counted
}

#[tokio::test]
async fn only_modules_that_a_key_signed_run() {
    let (key, other) = (KeyPair::new(), KeyPair::new());
    let policy = format!("rules:\n- keys: [{}]\n", key.yaml());
    let signature = key.sign(&module());
    assert_eq!(refusal(Some(&signature), &policy).await, None);
    for (signature, part) in [
        (None, "there is no "),
        (Some(other.sign(&module())), "did not make it"),
        (Some(key.sign(b"another module")), "this one has "),
        (
            Some(signature[..signature.len() / 2].to_owned()),
            "truncated",
        ),
        (
            Some("{\"base64Signature\":\"\"}".to_owned()),
            "--new-bundle-format",
        ),
    ] {
        let error = refusal(signature.as_deref(), &policy).await.unwrap();
        assert!(
            error.contains(part) && error.contains("p.yaml:2:9") && error.contains(SIGNATURE_FILE),
            "{part}: {error}"
        );
    }
}

#[tokio::test]
async fn a_rule_with_keys_applies_to_the_modules_that_it_names() {
    let (key, other) = (KeyPair::new(), KeyPair::new());
    let signature = key.sign(&module());
    let rule = |namespace: &str, key: &KeyPair, allow: &str| {
        let key = key.yaml();
        format!("- {{namespaces: [{namespace}], keys: [{key}], allow: {{{allow}}}}}\n")
    };
    // Unsigned modules run in namespaces that no rule with keys names.
    let elsewhere = format!("rules:\n{}", rule("default", &key, ""));
    assert_eq!(refusal(None, &elsewhere).await, None);
    // One rule whose key signed the module is enough; the other rules do not apply.
    let lists = [
        format!(
            "rules:\n{}{}",
            rule("infra", &other, ""),
            rule("infra", &key, "")
        ),
        format!("digests: Listed\nrules:\n{}", rule("infra", &key, "")),
        format!("digests: Pinned\nrules:\n{}", rule("infra", &key, "")),
    ];
    for policy in lists {
        assert_eq!(refusal(Some(&signature), &policy).await, None, "{policy}");
        assert!(refusal(None, &policy).await.is_some(), "{policy}");
    }
    let paths = "allow: {paths: []}\n";
    let grants = format!(
        "{paths}rules:\n{}",
        rule("infra", &key, "paths: [/domain/**]")
    );
    assert_eq!(refusal(Some(&signature), &grants).await, None);
    let others = rule("infra", &other, "paths: [/domain/**]");
    let none = format!("{paths}rules:\n{others}{}", rule("infra", &key, ""));
    let error = refusal(Some(&signature), &none).await.unwrap();
    assert!(error.contains("allow.paths of "), "{error}");
}

/// With the digest the operator has allowed this very module.
#[tokio::test]
async fn a_digest_in_a_rule_without_keys_needs_no_signature() {
    let key = KeyPair::new();
    let sum = Command::new("sha256sum")
        .arg(fixture::misbehaving_hook())
        .output()
        .unwrap();
    let digest = String::from_utf8(sum.stdout).unwrap()[..64].to_owned();
    let listed = |digest: &str| {
        let key = key.yaml();
        format!("rules:\n- digests: [{digest}]\n- keys: [{key}]\n")
    };
    assert_eq!(refusal(None, &listed(&digest)).await, None);
    assert!(refusal(None, &listed(&"0".repeat(64))).await.is_some());
}
