//! Decodes a PEM file that has one section.

use rustls_pki_types::pem::{self, SectionKind};

use crate::error::{KeyError, MAX_PEM};

const BEGIN: &str = "-----BEGIN ";
const END_OF_LABEL: &str = "-----";

/// Decodes the only section, which has to be of this kind.
pub(crate) fn decode_only_section(
    text: &str,
    expected: SectionKind,
    expected_label: &'static str,
) -> Result<Vec<u8>, KeyError> {
    if text.len() > MAX_PEM {
        return Err(KeyError::TooLarge);
    }
    let mut labels = text.split(BEGIN).skip(1);
    let label = labels.next().and_then(|rest| rest.split_once(END_OF_LABEL));
    let Some((label, _)) = label else {
        return Err(KeyError::NoPem {
            wanted: expected_label,
        });
    };
    if labels.next().is_some() {
        return Err(KeyError::Several);
    }
    if label != expected_label {
        return Err(KeyError::OtherSection {
            found: label.chars().take(60).collect(),
            wanted: expected_label,
            remedy: remedy(label, expected),
        });
    }
    let mut input = text.as_bytes();
    match pem::from_buf(&mut input) {
        Ok(Some((kind, content))) if kind == expected => Ok(content),
        _ => Err(KeyError::Damaged),
    }
}

/// How to get the expected key if the section has this label.
fn remedy(label: &str, expected: SectionKind) -> &'static str {
    let is_public_expected = matches!(expected, SectionKind::PublicKey);
    match label {
        "CERTIFICATE" if is_public_expected => {
            "take its key: openssl x509 -pubkey -noout -in CERTIFICATE"
        }
        "PRIVATE KEY" | "EC PRIVATE KEY" | "ENCRYPTED PRIVATE KEY" if is_public_expected => {
            "that is the private half, which belongs to the signer only; take the public one: \
             openssl pkey -pubout -in KEY"
        }
        "ENCRYPTED SIGSTORE PRIVATE KEY" | "ENCRYPTED COSIGN PRIVATE KEY" if is_public_expected => {
            "that is the private half, which belongs to the signer only; take the public one: \
             cosign public-key --key KEY"
        }
        _ if is_public_expected => "its signer has it: openssl pkey -pubout -in KEY",
        "PUBLIC KEY" | "CERTIFICATE" => "that is the public half; the private one signs",
        "EC PRIVATE KEY" => "convert it: openssl pkcs8 -topk8 -nocrypt -in KEY",
        "ENCRYPTED PRIVATE KEY" => "decrypt it: openssl pkcs8 -in KEY",
        "ENCRYPTED SIGSTORE PRIVATE KEY" | "ENCRYPTED COSIGN PRIVATE KEY" => {
            "cosign's encrypted keys are for cosign: sign with cosign, or make the key with openssl \
             and give it to cosign with cosign import-key-pair"
        }
        _ => "make a key with: openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256",
    }
}
