//! `keys` in the operator's policy: modules that none of these keys signed do not run; nor those signed before a key's
//! `notBefore`, nor those whose digest is in `deniedDigests`.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::fixture::{HookDirs, sha256_hex};
use hook_host::{CollectConfig, PolicySource, SigningDate, StandingHooks, collect};
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
    fs::read(crate::fixture::misbehaving_hook()).unwrap()
}

/// The refusal of the misbehaving hook with this signature under this policy; `None` if it runs.
async fn refusal(signature: Option<&str>, policy: &str) -> Option<String> {
    refusal_of(&module(), signature.map(str::as_bytes), policy).await
}

/// The refusal of a module with this signature under this policy; `None` if it runs.
async fn refusal_of(module: &[u8], signature: Option<&[u8]>, policy: &str) -> Option<String> {
    let dirs = HookDirs::new();
    if let Some(signature) = signature {
        dirs.put_modified_an_hour_ago("h", SIGNATURE_FILE, signature);
    }
    dirs.put_modified_an_hour_ago("h", "odd.wasm", module);
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
    let digest = sha256_hex(&module());
    let listed = |digest: &str| {
        let key = key.yaml();
        format!("rules:\n- digests: [{digest}]\n- keys: [{key}]\n")
    };
    assert_eq!(refusal(None, &listed(&digest)).await, None);
    assert!(refusal(None, &listed(&"0".repeat(64))).await.is_some());
}

#[tokio::test]
async fn a_signature_in_utf_16_is_refused() {
    let key = KeyPair::new();
    let policy = format!("rules:\n- keys: [{}]\n", key.yaml());
    let utf16 = key
        .sign(&module())
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect::<Vec<_>>();
    let error = refusal_of(&module(), Some(&utf16), &policy).await.unwrap();
    assert!(error.contains(SIGNATURE_FILE), "{error}");
}

/// A rule without keys for another namespace, or for this one, does not stand for a signature.
#[tokio::test]
async fn a_rule_without_keys_does_not_replace_a_signature() {
    let (key, other) = (KeyPair::new(), KeyPair::new());
    let signature = key.sign(&module());
    for namespace in ["other", "infra"] {
        let other = other.yaml();
        let policy = format!("rules:\n- keys: [{other}]\n- namespaces: [{namespace}]\n");
        let error = refusal(Some(&signature), &policy).await.unwrap();
        assert!(error.contains("did not make it"), "{namespace}: {error}");
    }
}

#[tokio::test]
async fn a_key_with_a_date_withdraws_older_signatures() {
    let key = KeyPair::new();
    let rule = |not_before: &str| {
        let key = key.yaml();
        format!("rules:\n- keys: [{{key: {key}, notBefore: {not_before}}}]\n")
    };
    let dated = |date: &str| {
        date.parse::<SigningDate>()
            .unwrap()
            .stamp(&module())
            .unwrap()
    };
    let november = dated("2026-11-01T00:00:00Z");
    let under = async |module: &[u8], policy: &str| {
        let signature = key.sign(module);
        refusal_of(module, Some(signature.as_bytes()), policy).await
    };
    for not_before in ["2026-11-01T00:00:00Z", "2025-01-01T00:00:00Z"] {
        assert_eq!(
            under(&november, &rule(not_before)).await,
            None,
            "{not_before}"
        );
    }
    for (module, not_before, part) in [
        (
            november.clone(),
            "2026-11-01T00:00:01Z",
            "it was signed at 2026-11-01T00:00:00Z, and ",
        ),
        (
            module(),
            "2025-01-01T00:00:00Z",
            "it has no date of signing, and ",
        ),
    ] {
        let error = under(&module, &rule(not_before)).await.unwrap();
        let remedy = format!(
            "wants signatures of this key from {not_before} on: sign it again with `virt-hook sign --dated`"
        );
        assert!(error.contains(part) && error.contains(&remedy), "{error}");
        assert!(
            error.contains("p.yaml:2:9: modules that this rule names run only if"),
            "{error}"
        );
    }
    // The date is signed: nobody else can move it.
    let moved = dated("2026-12-01T00:00:00Z");
    let signature = key.sign(&november);
    let error = refusal_of(
        &moved,
        Some(signature.as_bytes()),
        &rule("2026-11-15T00:00:00Z"),
    )
    .await;
    assert!(error.unwrap().contains("this one has "));
    // A later date is nobody's business: the key's owner signed it.
    assert_eq!(
        under(
            &dated("2999-01-01T00:00:00Z"),
            &rule("2026-11-01T00:00:00Z")
        )
        .await,
        None
    );
    // The other keys of the rule, and other rules, keep their own condition.
    let other = KeyPair::new();
    let (plain, other) = (key.yaml(), other.yaml());
    let both = format!(
        "rules:\n- keys:\n  - {{key: {plain}, notBefore: 2027-01-01T00:00:00Z}}\n  - {other}\n"
    );
    assert!(
        under(&november, &both)
            .await
            .unwrap()
            .contains("2027-01-01T00:00:00Z")
    );
    let either = format!("{both}- keys: [{plain}]\n");
    assert_eq!(under(&november, &either).await, None);
}

#[tokio::test]
async fn a_denied_digest_is_refused_whatever_else_permits_the_module() {
    let (key, digest) = (KeyPair::new(), sha256_hex(&module()));
    let signature = key.sign(&module());
    let keys = format!(
        "rules:\n- {{digests: [{digest}], keys: [{}]}}\n- digests: [{digest}]\n",
        key.yaml()
    );
    for policy in ["".to_owned(), format!("digests: Listed\n{keys}"), keys] {
        for denied in [digest.clone(), format!("sha256:{}", digest.to_uppercase())] {
            let policy = format!("deniedDigests: [{denied}]\n{policy}");
            let error = refusal(Some(&signature), &policy).await.unwrap();
            let part =
                format!("p.yaml:1:17: the operator denies the module with the sha256 {digest}");
            assert!(error.contains(&part), "{error}");
        }
    }
    let others = format!("deniedDigests: [{}]\n", "0".repeat(64));
    assert_eq!(refusal(None, &others).await, None);
    // What is denied is not compiled: the reason is not that it is no module.
    let nonsense = b"\0asm nonsense";
    let policy = format!("deniedDigests: [{}]\n", sha256_hex(nonsense));
    let error = refusal_of(nonsense, None, &policy).await.unwrap();
    assert!(error.contains("the operator denies"), "{error}");
}
