//! Hostile signatures, one row each: what is accepted, and what is not.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;
use std::process::Command;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};
use sigstore_bundle::{Bundle, PublicKey, SigningKey};

const MODULE: &[u8] = b"\0asm, and what a module is made of";
const OTHER: &[u8] = b"\0asm, another module";

const MEDIA_TYPE: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";

/// The order of the group of P-256.
const N: [u8; 32] = [
    0xff, 0xff, 0xff, 0xff, 0x00, 0x00, 0x00, 0x00, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
    0xbc, 0xe6, 0xfa, 0xad, 0xa7, 0x17, 0x9e, 0x84, 0xf3, 0xb9, 0xca, 0xc2, 0xfc, 0x63, 0x25, 0x51,
];

fn openssl(directory: &Path, arguments: &str) -> Vec<u8> {
    let mut command = Command::new("openssl");
    command.args(arguments.split(' ')).current_dir(directory);
    let output = command.output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "openssl {arguments}: {stderr}");
    output.stdout
}

/// A key pair, and the directory with its files `key`, `public` and `module`.
struct Signer {
    directory: tempfile::TempDir,
    key: SigningKey,
    pem: String,
}

impl Signer {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let curve = "-pkeyopt ec_paramgen_curve:P-256";
        openssl(
            directory.path(),
            &format!("genpkey -algorithm EC {curve} -out key"),
        );
        openssl(directory.path(), "pkey -in key -pubout -out public");
        fs::write(directory.path().join("module"), MODULE).unwrap();
        let read = |name| fs::read_to_string(directory.path().join(name)).unwrap();
        Self {
            key: SigningKey::from_pem(&read("key")).unwrap(),
            pem: read("public"),
            directory,
        }
    }

    fn sign(&self, content: &[u8]) -> Vec<u8> {
        let bundle = Bundle::sign(content, &self.key).unwrap().render();
        let json: Value = serde_json::from_str(&bundle).unwrap();
        let text = json["messageSignature"]["signature"].as_str().unwrap();
        STANDARD.decode(text).unwrap()
    }
}

fn sha256(bytes: &[u8]) -> Vec<u8> {
    digest(&SHA256, bytes).as_ref().to_vec()
}

fn bundle(signature: &[u8]) -> Value {
    json!({
        "mediaType": MEDIA_TYPE,
        "verificationMaterial": {"publicKey": {"hint": "x"}},
        "messageSignature": {
            "messageDigest": {"algorithm": "SHA2_256", "digest": STANDARD.encode(sha256(MODULE))},
            "signature": STANDARD.encode(signature),
        },
    })
}

/// The valid bundle with one value replaced.
fn with(signature: &[u8], pointer: &str, value: Value) -> String {
    let mut bundle = bundle(signature);
    let (parent, member) = pointer.rsplit_once('/').unwrap();
    bundle.pointer_mut(parent).unwrap()[member] = value;
    bundle.to_string()
}

fn without(signature: &[u8], pointer: &str) -> String {
    let mut bundle = bundle(signature);
    let (parent, member) = pointer.rsplit_once('/').unwrap();
    let parent = bundle.pointer_mut(parent).unwrap();
    parent.as_object_mut().unwrap().remove(member).unwrap();
    bundle.to_string()
}

/// The integers r and s of a signature in DER, without leading zeros.
fn integers(der: &[u8]) -> [Vec<u8>; 2] {
    assert_eq!((der[0], usize::from(der[1])), (0x30, der.len() - 2));
    let integer = |at: usize| {
        assert_eq!(der[at], 2);
        let length = usize::from(der[at + 1]);
        let bytes = &der[at + 2..at + 2 + length];
        let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
        (bytes[zeros..].to_vec(), at + 2 + length)
    };
    let (r, next) = integer(2);
    [r, integer(next).0]
}

fn der_integer(integer: &[u8]) -> Vec<u8> {
    let is_negative = integer.first().is_none_or(|byte| byte & 0x80 != 0);
    let bytes = [if is_negative { &[0][..] } else { &[] }, integer].concat();
    [vec![2, bytes.len() as u8], bytes].concat()
}

fn der(r: &[u8], s: &[u8]) -> Vec<u8> {
    let content = [der_integer(r), der_integer(s)].concat();
    [vec![0x30, content.len() as u8], content].concat()
}

fn padded(integer: &[u8]) -> Vec<u8> {
    [vec![0; 32 - integer.len()], integer.to_vec()].concat()
}

/// n - s, which verifies whenever s does.
fn negated(s: &[u8]) -> Vec<u8> {
    let (s, mut borrow) = (padded(s), 0_i16);
    let mut result = vec![0; 32];
    for index in (0..32).rev() {
        let difference = i16::from(N[index]) - i16::from(s[index]) - borrow;
        borrow = i16::from(difference < 0);
        result[index] = difference.rem_euclid(256) as u8;
    }
    let zeros = result.iter().take_while(|byte| **byte == 0).count();
    result.split_off(zeros)
}

/// r + n, which is r for a verifier that reduces without a check.
fn plus_order(r: &[u8]) -> Vec<u8> {
    let (r, mut carry) = (padded(r), 0_u16);
    let mut result = vec![0; 33];
    for index in (0..32).rev() {
        let sum = u16::from(N[index]) + u16::from(r[index]) + carry;
        (result[index + 1], carry) = (sum as u8, sum >> 8);
    }
    result[0] = carry as u8;
    let zeros = result.iter().take_while(|byte| **byte == 0).count();
    result.split_off(zeros)
}

fn is_signed(text: &str, keys: &[PublicKey]) -> Result<(), String> {
    let bundle = Bundle::parse(text).map_err(|error| error.to_string())?;
    let signer = bundle.signer(MODULE, keys);
    signer.map(drop).map_err(|error| error.to_string())
}

#[test]
fn hostile_bundles() {
    let (signer, stranger) = (Signer::new(), Signer::new());
    let keys = [PublicKey::from_pem(&signer.pem).unwrap()];
    let valid = signer.sign(MODULE);
    let [r, s] = integers(&valid);
    let long_form = [vec![0x30, 0x81], valid[1..].to_vec()].concat();
    let text = |signature: &[u8]| bundle(signature).to_string();
    let good = text(&valid);
    let wrong = bundle(&stranger.sign(MODULE))["messageSignature"].to_string();
    let twice = |key: &str| {
        good.replacen(
            "\"messageSignature\":",
            &format!("\"{key}\":{wrong},\"messageSignature\":"),
            1,
        )
    };
    let digest_in_hex: String = sha256(MODULE)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let sha384 = openssl(signer.directory.path(), "dgst -sha384 -sign key module");
    let digest = "/messageSignature/messageDigest/digest";
    let algorithm = "/messageSignature/messageDigest/algorithm";
    let encoded = STANDARD.encode(&valid);
    let blank = format!("{} {}", &encoded[..8], &encoded[8..]);
    let rows: Vec<(&str, String, bool)> = vec![
        ("valid bundle", good.clone(), true),
        ("empty bundle", String::new(), false),
        (
            "no messageDigest",
            without(&valid, "/messageSignature/messageDigest"),
            true,
        ),
        (
            "s replaced by n-s, same bytes signed",
            text(&der(&r, &negated(&s))),
            true,
        ),
        ("r = s = 0", text(&der(&[], &[])), false),
        ("r = s = n", text(&der(&N, &N)), false),
        ("r + n", text(&der(&plus_order(&r), &s)), false),
        ("r = s = 1", text(&der(&[1], &[1])), false),
        ("signed by another key", text(&stranger.sign(MODULE)), false),
        ("ECDSA over SHA-384", text(&sha384), false),
        (
            "signature of the digest in hexadecimal",
            text(&signer.sign(digest_in_hex.as_bytes())),
            false,
        ),
        (
            "signature of the digest",
            text(&signer.sign(&sha256(MODULE))),
            false,
        ),
        (
            "signature of another file, digest of this one",
            text(&signer.sign(OTHER)),
            false,
        ),
        (
            "right signature, digest of another file",
            with(&valid, digest, json!(STANDARD.encode(sha256(OTHER)))),
            false,
        ),
        ("empty digest", with(&valid, digest, json!("")), false),
        (
            "algorithm SHA2_512",
            with(&valid, algorithm, json!("SHA2_512")),
            false,
        ),
        (
            "algorithm 1, its number in protobuf",
            with(&valid, algorithm, json!(1)),
            true,
        ),
        (
            "algorithm \"1\"",
            with(&valid, algorithm, json!("1")),
            false,
        ),
        ("algorithm 1.0", with(&valid, algorithm, json!(1.0)), false),
        (
            "algorithm null",
            with(&valid, algorithm, Value::Null),
            false,
        ),
        ("empty signature", text(&[]), false),
        (
            "a zero byte after the DER",
            text(&[&valid[..], &[0]].concat()),
            false,
        ),
        (
            "raw r and s",
            text(&[padded(&r), padded(&s)].concat()),
            false,
        ),
        ("long-form length", text(&long_form), false),
        (
            "a superfluous zero before r",
            text(&{
                let content =
                    [vec![2, r.len() as u8 + 2, 0, 0], r.clone(), der_integer(&s)].concat();
                [vec![0x30, content.len() as u8], content].concat()
            }),
            false,
        ),
        (
            "a negative r",
            text(&{
                let content = [vec![2, 1, 0x80], der_integer(&s)].concat();
                [vec![0x30, content.len() as u8], content].concat()
            }),
            false,
        ),
        (
            "a length behind the end",
            text(&[&[0x30, valid[1] + 1], &valid[2..]].concat()),
            false,
        ),
        (
            "dsseEnvelope beside messageSignature",
            with(&valid, "/dsseEnvelope", json!({})),
            false,
        ),
        (
            "dsseEnvelope null",
            with(&valid, "/dsseEnvelope", Value::Null),
            true,
        ),
        (
            "certificate beside publicKey",
            with(
                &valid,
                "/verificationMaterial/certificate",
                json!({"rawBytes": "AAAA"}),
            ),
            false,
        ),
        (
            "messageSignature twice: wrong, then right",
            twice("messageSignature"),
            false,
        ),
        (
            "the first one spelt with an escape",
            twice("message\\u0053ignature"),
            false,
        ),
        ("{} after the bundle", format!("{good}{{}}"), false),
        (
            "two bundles: wrong, then right",
            format!("{}\n{good}", text(&stranger.sign(MODULE))),
            false,
        ),
        ("BOM before the bundle", format!("\u{feff}{good}"), false),
        (
            "another version",
            with(
                &valid,
                "/mediaType",
                json!("application/vnd.dev.sigstore.bundle+json;version=0.2"),
            ),
            false,
        ),
        (
            "mediaType with a capital",
            with(
                &valid,
                "/mediaType",
                json!(MEDIA_TYPE.replacen('a', "A", 1)),
            ),
            false,
        ),
        ("no mediaType", without(&valid, "/mediaType"), false),
        (
            "a blank in the Base64",
            with(&valid, "/messageSignature/signature", json!(blank)),
            false,
        ),
        (
            "66,000 bytes more",
            with(&valid, "/x", json!("y".repeat(66_000))),
            false,
        ),
        (
            "a hint of 300 characters",
            with(
                &valid,
                "/verificationMaterial/publicKey/hint",
                json!("h".repeat(300)),
            ),
            false,
        ),
        ("60,000 brackets", "[".repeat(60_000), false),
    ];
    for (name, text, is_accepted) in &rows {
        let result = is_signed(text, &keys);
        assert_eq!(result.is_ok(), *is_accepted, "{name}: {result:?}");
    }
    assert_eq!(rows.len(), 42);
}

/// A hint is shown in errors: it must not command a terminal.
#[test]
fn a_hint_with_control_characters_is_escaped() {
    let (signer, stranger) = (Signer::new(), Signer::new());
    let keys = [PublicKey::from_pem(&signer.pem).unwrap()];
    let hint = "\u{1b}[2J\u{202e}";
    let text = with(
        &stranger.sign(MODULE),
        "/verificationMaterial/publicKey/hint",
        json!(hint),
    );
    let error = is_signed(&text, &keys).unwrap_err();
    assert!(
        error.contains("did not make it")
            && !error.contains('\u{1b}')
            && !error.contains('\u{202e}'),
        "{error:?}"
    );
}

#[test]
fn hostile_keys() {
    let (signer, stranger) = (Signer::new(), Signer::new());
    let text = bundle(&signer.sign(MODULE)).to_string();
    let curve = "-pkeyopt ec_paramgen_curve:P-384";
    let directory = signer.directory.path();
    openssl(
        directory,
        &format!("genpkey -algorithm EC {curve} -out p384"),
    );
    let p384 = String::from_utf8(openssl(directory, "pkey -in p384 -pubout")).unwrap();
    let pem = &signer.pem;
    for (name, pem, is_key) in [
        ("P-384", p384, false),
        ("two PEM sections", format!("{pem}{}", stranger.pem), false),
        (
            "text before the PEM section",
            format!("subject: hooks\n{pem}"),
            true,
        ),
        (
            "the label in lower case",
            pem.replace("PUBLIC KEY", "public key"),
            false,
        ),
    ] {
        let key = PublicKey::from_pem(&pem);
        assert_eq!(key.is_ok(), is_key, "{name}: {key:?}");
        if let Ok(key) = key {
            assert_eq!(is_signed(&text, &[key]), Ok(()), "{name}");
        }
    }
    let key = |pem: &str| PublicKey::from_pem(pem).unwrap();
    let both = [key(&stranger.pem), key(pem)];
    assert_eq!(is_signed(&text, &both), Ok(()), "the second key fits");
    assert!(is_signed(&text, &both[..1]).is_err());
}
