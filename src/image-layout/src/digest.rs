//! SHA-256 digests, which name blobs in layouts and registries.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::digest::Output;
use sha2::{Digest as _, Sha256};

const PREFIX: &str = "sha256:";

/// A sha256: `sha256:` and 64 lower-case hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest(String);

/// The error for a text that is not a [`Digest`], with its first 100 characters.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a sha256 digest")]
pub struct InvalidDigest(String);

impl Digest {
    /// The digest with the prefix `sha256:`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The hexadecimal digits.
    #[must_use]
    pub fn hex(&self) -> &str {
        &self.0[PREFIX.len()..]
    }
}

/// The digest of the content.
#[must_use]
pub fn sha256(content: &[u8]) -> Digest {
    Sha256::digest(content).into()
}

impl From<Output<Sha256>> for Digest {
    fn from(hash: Output<Sha256>) -> Self {
        Self(format!("{PREFIX}{hash:x}"))
    }
}

impl FromStr for Digest {
    type Err = InvalidDigest;

    fn from_str(text: &str) -> Result<Self, InvalidDigest> {
        let is_lower_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        let hex = text.strip_prefix(PREFIX);
        match hex.is_some_and(|hex| hex.len() == 64 && hex.bytes().all(is_lower_hex)) {
            true => Ok(Self(text.to_owned())),
            false => Err(InvalidDigest(text.chars().take(100).collect())),
        }
    }
}

impl TryFrom<String> for Digest {
    type Error = InvalidDigest;

    fn try_from(text: String) -> Result<Self, InvalidDigest> {
        text.parse()
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lower_case_sha256_digests_are_parsed() {
        let digest = sha256(b"");
        assert_eq!(digest.hex(), digest.as_str().replace("sha256:", ""));
        assert_eq!(digest.as_str().parse::<Digest>().unwrap(), digest);
        let hex = digest.hex();
        for text in [
            hex.to_owned(),
            format!("sha512:{hex}"),
            format!("sha256:{}", hex.to_uppercase()),
            format!("sha256:{}", &hex[1..]),
            format!("sha256:{hex}0"),
            format!("sha256:../{}", &hex[3..]),
            String::new(),
        ] {
            let error = text.parse::<Digest>().unwrap_err().to_string();
            assert!(error.ends_with("is not a sha256 digest"), "{error}");
        }
    }
}
