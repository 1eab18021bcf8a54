//! Typed values of policy files.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use domain_xml::PathPattern;
use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};
use serde_saphyr::Spanned;
use sigstore_bundle::PublicKey;

use super::permission::DangerKind;
use super::strict_yaml::YamlPosition;
use super::version_range::VersionRange;
use crate::PodPattern;
use crate::description::{absolute_directory, domain_pattern};

/// A value and its position.
#[derive(Debug, Clone, Deserialize)]
#[serde(transparent, bound = "T: serde::de::DeserializeOwned")]
pub(crate) struct Located<T>(Spanned<T>);

impl<T> Located<T> {
    pub(crate) fn get(&self) -> &T {
        &self.0.value
    }

    pub(crate) fn position(&self) -> YamlPosition {
        YamlPosition::from(self.0.referenced)
    }
}

/// `250ms`, `2s`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DurationValue(pub(crate) Duration);

/// `65536`, `64Ki`, `64Mi`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SizeValue(pub(crate) usize);

/// The sha256 of a module: 64 hexadecimal digits, `sha256:` before them or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sha256(pub(crate) String);

/// An absolute path pattern into the domain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pattern(pub(crate) PathPattern);

/// A part of the dangerous set that the operator grants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Dangerous {
    /// What the pattern names.
    Path(PathPattern),
    /// A whole class.
    Kind(DangerKind),
}

/// A public key that signs modules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SignerKey(pub(crate) PublicKey);

/// An absolute directory without `.` and `..` in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Directory(pub(crate) PathBuf);

fn time(text: &str) -> Option<DurationValue> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().ok()?;
    match unit {
        "ms" => Some(DurationValue(Duration::from_millis(number))),
        "s" => Some(DurationValue(Duration::from_secs(number))),
        _ => None,
    }
}

fn bytes(text: &str) -> Option<SizeValue> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let factor = match unit {
        "" => 1,
        "Ki" => 1 << 10,
        "Mi" => 1 << 20,
        "Gi" => 1 << 30,
        _ => return None,
    };
    number
        .parse::<usize>()
        .ok()?
        .checked_mul(factor)
        .map(SizeValue)
}

fn sha256(text: &str) -> Option<Sha256> {
    let digest = text.strip_prefix("sha256:").unwrap_or(text);
    let hexadecimal = digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit());
    hexadecimal.then(|| Sha256(digest.to_ascii_lowercase()))
}

/// Reads a scalar as text.
struct Scalar;

impl Visitor<'_> for Scalar {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<String, E> {
        Ok(text.to_owned())
    }
}

macro_rules! from_text {
    ($type:ty, $read:expr) => {
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = deserializer.deserialize_str(Scalar)?;
                let read: fn(&str) -> Result<Self, String> = $read;
                read(&text).map_err(D::Error::custom)
            }
        }
    };
}

from_text!(DurationValue, |text| time(text).ok_or_else(|| format!(
    "{text:?} is no duration such as 250ms or 2s"
)));
from_text!(SizeValue, |text| bytes(text).ok_or_else(|| format!(
    "{text:?} is no size such as 65536, 64Ki or 64Mi"
)));
from_text!(Sha256, |text| sha256(text).ok_or_else(|| format!(
    "{text:?} is no sha256: 64 hexadecimal digits"
)));
from_text!(VersionRange, |text| VersionRange::parse(text));
from_text!(Pattern, |text| domain_pattern(text).map(Pattern));
from_text!(Dangerous, |text| if text.starts_with('/') {
    domain_pattern(text).map(Dangerous::Path)
} else {
    let kind = text.parse::<DangerKind>();
    kind.map(Dangerous::Kind).map_err(|error| error.to_string())
});
from_text!(SignerKey, |text| PublicKey::from_pem(text)
    .map(SignerKey)
    .map_err(|error| error.to_string()));
from_text!(PodPattern, PodPattern::parse);
from_text!(Directory, |text| absolute_directory(text).map(Directory));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_units_are_accepted() {
        assert_eq!(
            time("250ms"),
            Some(DurationValue(Duration::from_millis(250)))
        );
        assert_eq!(time("2s"), Some(DurationValue(Duration::from_secs(2))));
        for wrong in ["2", "s", "2 s", "2m", "-1s", "99999999999999999999s"] {
            assert_eq!(time(wrong), None, "{wrong}");
        }
        assert_eq!(bytes("64Mi"), Some(SizeValue(64 << 20)));
        assert_eq!(bytes("7"), Some(SizeValue(7)));
        for wrong in [
            "",
            "Mi",
            "1M",
            "1.5Mi",
            "99999999999Gi",
            "18446744073709551615Ki",
        ] {
            assert_eq!(bytes(wrong), None, "{wrong}");
        }
        let digest = "A".repeat(64);
        assert_eq!(
            sha256(&format!("sha256:{digest}")),
            Some(Sha256("a".repeat(64)))
        );
        assert_eq!(sha256(&digest[1..]), None);
    }
}
