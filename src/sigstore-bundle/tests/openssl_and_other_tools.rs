//! Interoperability: openssl verifies our signatures, and we verify those of openssl and bundles of other tools.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use sigstore_bundle::{Bundle, BundleError, KeyError, PublicKey, SigningKey, VerifyError};

const MESSAGE: &[u8] = b"a module";

fn openssl(directory: &Path, arguments: &str) -> Vec<u8> {
    let output = Command::new("openssl")
        .args(arguments.split_whitespace())
        .current_dir(directory)
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "openssl {arguments}: {stderr}");
    output.stdout
}

/// A directory with a key pair made by openssl (`key` and `pub`) and the message.
fn key_pair(kind: &str) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    openssl(
        directory.path(),
        &format!("genpkey -algorithm {kind} -out key"),
    );
    openssl(directory.path(), "pkey -in key -pubout -out pub");
    fs::write(directory.path().join("message"), MESSAGE).unwrap();
    directory
}

fn p256() -> tempfile::TempDir {
    key_pair("EC -pkeyopt ec_paramgen_curve:P-256")
}

fn text(directory: &Path, name: &str) -> String {
    fs::read_to_string(directory.join(name)).unwrap()
}

#[test]
fn openssl_verifies_our_signature() {
    let directory = p256();
    let key = SigningKey::from_pem(&text(directory.path(), "key")).unwrap();
    let bundle = Bundle::sign(MESSAGE, &key).unwrap();
    let json: Value = serde_json::from_str(&bundle.render()).unwrap();
    let decode = |value: &Value| STANDARD.decode(value.as_str().unwrap()).unwrap();
    let signature = decode(&json["messageSignature"]["signature"]);
    fs::write(directory.path().join("signature"), signature).unwrap();
    openssl(
        directory.path(),
        "dgst -sha256 -verify pub -signature signature message",
    );
    let digest = decode(&json["messageSignature"]["messageDigest"]["digest"]);
    assert_eq!(
        digest,
        openssl(directory.path(), "dgst -sha256 -binary message")
    );
    // The hint is the sha256 of the public key in DER, as cosign computes it.
    let der = openssl(directory.path(), "pkey -pubin -in pub -outform DER");
    fs::write(directory.path().join("der"), der).unwrap();
    let hint = openssl(directory.path(), "dgst -sha256 -binary der");
    let public = &json["verificationMaterial"]["publicKey"];
    assert_eq!(public["hint"], STANDARD.encode(hint));
}

#[test]
fn we_verify_a_signature_of_openssl() {
    let directory = p256();
    let signature = openssl(directory.path(), "dgst -sha256 -sign key message");
    let bundle = json!({
        "mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
        "verificationMaterial": {"publicKey": {"hint": ""}, "tlogEntries": [{"logIndex": "1"}]},
        "messageSignature": {"signature": STANDARD.encode(signature)},
    });
    let bundle = Bundle::parse(&bundle.to_string()).unwrap();
    let key = PublicKey::from_pem(&text(directory.path(), "pub")).unwrap();
    assert_eq!(bundle.verify(MESSAGE, &key), Ok(()));
    let other = PublicKey::from_pem(&text(p256().path(), "pub")).unwrap();
    for (message, key) in [(&b"another"[..], &key), (MESSAGE, &other)] {
        let error = bundle.verify(message, key).unwrap_err();
        assert!(matches!(error, VerifyError::OtherKey { .. }), "{error}");
    }
}

#[test]
fn changed_files_fail_verification() {
    let directory = p256();
    let key = SigningKey::from_pem(&text(directory.path(), "key")).unwrap();
    let bundle = Bundle::sign(MESSAGE, &key).unwrap();
    let parsed = Bundle::parse(&bundle.render()).unwrap();
    assert_eq!(parsed, bundle);
    assert_eq!(parsed.verify(MESSAGE, key.public_key()), Ok(()));
    let other = PublicKey::from_pem(&text(p256().path(), "pub")).unwrap();
    let signer = |keys: &[&PublicKey]| {
        parsed
            .signer(MESSAGE, keys)
            .map_err(|error| error.to_string())
    };
    assert_eq!(signer(&[&other, key.public_key()]), Ok(1));
    assert_eq!(signer(&[]), Err("no key was given".to_owned()));
    let error = signer(&[&other, &other]).unwrap_err();
    assert!(
        error.starts_with("none of the 2 keys made it (its hint"),
        "{error}"
    );
    let error = parsed.verify(b"changed", key.public_key()).unwrap_err();
    assert!(matches!(error, VerifyError::OtherFile { .. }), "{error}");
    let text = bundle.render();
    for end in 0..text.trim_end().len() {
        let error = Bundle::parse(&text[..end]).unwrap_err();
        assert!(matches!(error, BundleError::Malformed(_)), "{error}");
    }
    // The digest of one file with the signature of another.
    let mut json: Value = serde_json::from_str(&text).unwrap();
    let other = Bundle::sign(b"another", &key).unwrap().render();
    let other: Value = serde_json::from_str(&other).unwrap();
    json["messageSignature"]["signature"] = other["messageSignature"]["signature"].clone();
    let mixed = Bundle::parse(&json.to_string()).unwrap();
    assert!(mixed.verify(MESSAGE, key.public_key()).is_err());
    assert!(mixed.verify(b"another", key.public_key()).is_err());
}

#[test]
fn errors_of_unusable_keys_name_their_type_or_the_remedy() {
    for (kind, name) in [
        ("EC -pkeyopt ec_paramgen_curve:P-384", "ECDSA P-384"),
        ("EC -pkeyopt ec_paramgen_curve:P-521", "ECDSA P-521"),
        ("EC -pkeyopt ec_paramgen_curve:secp256k1", "ECDSA secp256k1"),
        ("RSA -pkeyopt rsa_keygen_bits:1024", "RSA"),
        ("ED25519", "Ed25519"),
    ] {
        let directory = key_pair(kind);
        let public = PublicKey::from_pem(&text(directory.path(), "pub")).unwrap_err();
        assert_eq!(public, KeyError::OtherType { found: name });
        let private = SigningKey::from_pem(&text(directory.path(), "key")).unwrap_err();
        assert_eq!(private, KeyError::OtherType { found: name });
    }
    let directory = p256();
    openssl(directory.path(), "ec -in key -out sec1");
    openssl(
        directory.path(),
        "pkcs8 -topk8 -in key -out encrypted -passout pass:x",
    );
    openssl(
        directory.path(),
        "pkey -pubin -in pub -ec_conv_form compressed -out compressed",
    );
    let (key, public) = (text(directory.path(), "key"), text(directory.path(), "pub"));
    let half = &key[..key.len() / 2];
    let certificate = "-----BEGIN CERTIFICATE-----\n-----END";
    let sigstore = "-----BEGIN ENCRYPTED SIGSTORE PRIVATE KEY-----\n-----END";
    for (text, part) in [
        (
            &text(directory.path(), "sec1")[..],
            "openssl pkcs8 -topk8 -nocrypt",
        ),
        (
            &text(directory.path(), "encrypted"),
            "openssl pkcs8 -in KEY",
        ),
        (sigstore, "cosign import-key-pair"),
        (&public, "the public half"),
        (certificate, "the public half"),
        (half, "damaged"),
        ("", "not a key in PEM"),
        (&format!("{key}{key}"), "several PEM sections"),
    ] {
        let error = SigningKey::from_pem(text).unwrap_err().to_string();
        assert!(error.contains(part), "{part}: {error}");
    }
    for (text, part) in [
        (&key[..], "openssl pkey -pubout"),
        (&text(directory.path(), "sec1"), "openssl pkey -pubout"),
        (&text(directory.path(), "encrypted"), "openssl pkey -pubout"),
        (sigstore, "cosign public-key"),
        (certificate, "openssl x509 -pubkey"),
        (
            "-----BEGIN RSA PUBLIC KEY-----\n-----END",
            "its signer has it",
        ),
        (&text(directory.path(), "compressed"), "uncompressed"),
        (&public[..60], "damaged"),
    ] {
        let error = PublicKey::from_pem(text).unwrap_err().to_string();
        assert!(error.contains(part), "{part}: {error}");
    }
}

/// tests/bundles/README.md says which tools made the bundles.
#[test]
fn bundles_of_other_tools_are_verified() {
    let bundles = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/bundles");
    let key = PublicKey::from_pem(&text(&bundles, "key.pub")).unwrap();
    let other = PublicKey::from_pem(&text(p256().path(), "pub")).unwrap();
    let message = fs::read(bundles.join("message")).unwrap();
    let mut verified = 0;
    for entry in fs::read_dir(&bundles).unwrap() {
        let path = entry.unwrap().path();
        if path.to_str().unwrap().ends_with(".sigstore.json") {
            let bundle = Bundle::parse(&fs::read_to_string(&path).unwrap()).unwrap();
            assert_eq!(bundle.verify(&message, &key), Ok(()), "{}", path.display());
            assert!(bundle.verify(&message, &other).is_err());
            assert!(bundle.verify(b"another", &key).is_err());
            assert_eq!(bundle.hint(), key.id().to_string(), "{}", path.display());
            verified += 1;
        }
    }
    assert!(verified >= 1);
}
