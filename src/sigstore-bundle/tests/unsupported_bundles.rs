//! Bundles that are invalid, or of a kind that is not supported.
#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};
use sigstore_bundle::Bundle;

#[test]
fn errors_of_unusable_bundles_name_what_is_wrong() {
    let parse_error = |json: Value| Bundle::parse(&json.to_string()).unwrap_err().to_string();
    let v3 = "application/vnd.dev.sigstore.bundle.v0.3+json";
    let old = "application/vnd.dev.sigstore.bundle+json;version=0.1";
    let signature = json!({"signature": "AAAA"});
    for (json, part) in [
        (json!({"mediaType": old}), "version=0.1"),
        (
            json!({"base64Signature": "", "rekorBundle": {}}),
            "--new-bundle-format",
        ),
        (
            json!({"mediaType": v3, "verificationMaterial": {"certificate": {}}}),
            "certificate (keyless)",
        ),
        (
            json!({"mediaType": v3, "verificationMaterial": {"publicKey": {}}, "dsseEnvelope": {}}),
            "attestation (DSSE)",
        ),
        (
            json!({"mediaType": v3, "verificationMaterial": {"publicKey": {}},
                "messageSignature": {"signature": "AAAA",
                    "messageDigest": {"algorithm": "SHA2_512", "digest": "AAAA"}}}),
            "SHA2_512",
        ),
        (
            json!({"mediaType": v3, "messageSignature": signature}),
            "no publicKey",
        ),
        (
            json!({"mediaType": v3, "verificationMaterial": {"publicKey": {}},
                "messageSignature": {"signature": "%"}}),
            "not Base64",
        ),
        (json!({}), "no mediaType"),
        (json!({"mediaType": "\u{1b}[2J"}), "\\u{1b}[2J"),
        (json!({"mediaType": v3, "x": "y".repeat(70_000)}), "65536"),
    ] {
        let error = parse_error(json);
        assert!(error.contains(part), "{part}: {error}");
    }
}
