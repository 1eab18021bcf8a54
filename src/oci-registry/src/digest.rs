//! Digests of content.

use std::fmt;
use std::str::FromStr;

use data_encoding::HEXLOWER;
use ring::digest::SHA256;
use serde::{Deserialize, Serialize};

const PREFIX: &str = "sha256:";

/// A sha256: `sha256:` and 64 lower-case hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest(String);

impl Digest {
    /// With the prefix.
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

/// The digest of content.
#[must_use]
pub fn sha256(content: &[u8]) -> Digest {
    let digest = ring::digest::digest(&SHA256, content);
    Digest(format!("{PREFIX}{}", HEXLOWER.encode(digest.as_ref())))
}

impl FromStr for Digest {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let lower = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        let hex = text.strip_prefix(PREFIX);
        match hex.is_some_and(|hex| hex.len() == 64 && hex.bytes().all(lower)) {
            true => Ok(Self(text.to_owned())),
            false => {
                let start: String = text.chars().take(100).collect();
                Err(format!("{start:?} is no sha256 digest"))
            }
        }
    }
}

impl TryFrom<String> for Digest {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
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
