//! Typed values of policy files.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use quantity::{Quantity, go_duration};
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde_saphyr::Spanned;
use sigstore_bundle::PublicKey;

use super::permission::DangerKind;
use super::policy_file::YamlPosition;
use super::version_range::VersionRange;
use crate::absolute_directory::absolute_directory;
use crate::{ConditionedPath, PodPattern, SigningDate};

/// A value and its position.
#[derive(Debug, Clone, Deserialize)]
#[serde(transparent, bound = "T: serde::de::DeserializeOwned")]
pub(crate) struct WithPosition<T>(Spanned<T>);

impl<T> WithPosition<T> {
    pub(crate) fn get(&self) -> &T {
        &self.0.value
    }

    pub(crate) fn position(&self) -> YamlPosition {
        YamlPosition::from(self.0.referenced)
    }
}

/// A Go duration: `250ms`, `1.5s`, `1m`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DurationValue(pub(crate) Duration);

/// A Kubernetes quantity of bytes: `65536`, `64Mi`, `128M`, `0.5Gi`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SizeValue(pub(crate) usize);

/// The sha256 of a module: 64 hexadecimal digits, with or without the prefix `sha256:`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sha256(pub(crate) String);

/// A part of the dangerous set that the operator grants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Dangerous {
    /// The nodes that the pattern names, set to values that meet its condition.
    Path(Box<ConditionedPath>),
    /// All nodes of a kind.
    Kind(DangerKind),
}

/// A public key that signs modules: its PEM, or the mapping of [`DatedKey`].
#[derive(Debug, Clone)]
pub(crate) struct SignerKey {
    pub(crate) key: PublicKey,
    /// Modules that the key signed before this date, or without a date, count as not signed by the key.
    pub(crate) not_before: Option<WithPosition<SigningDate>>,
}

/// An absolute directory without `.` and `..` in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Directory(pub(crate) PathBuf);

/// Maximum values are checked where a duration or size is used.
fn duration(text: &str) -> Option<DurationValue> {
    go_duration::parse(text).ok().map(DurationValue)
}

/// Fractions of a byte are rounded up, as in Kubernetes.
fn size(text: &str) -> Option<SizeValue> {
    let bytes = Quantity::parse(text).ok()?.bytes().ok()?;
    usize::try_from(bytes).ok().map(SizeValue)
}

fn sha256(text: &str) -> Option<Sha256> {
    let digest = text.strip_prefix("sha256:").unwrap_or(text);
    let is_hexadecimal = digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hexadecimal.then(|| Sha256(digest.to_ascii_lowercase()))
}

/// Reads a scalar as text.
struct ScalarVisitor;

impl Visitor<'_> for ScalarVisitor {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<String, E> {
        Ok(text.to_owned())
    }
}

macro_rules! deserialize_from_text {
    ($type:ty, $parse:expr) => {
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = deserializer.deserialize_str(ScalarVisitor)?;
                let parse: fn(&str) -> Result<Self, String> = $parse;
                parse(&text).map_err(D::Error::custom)
            }
        }
    };
}

deserialize_from_text!(DurationValue, |text| duration(text)
    .ok_or_else(|| format!("{text:?} is not a duration such as 250ms, 1.5s or 1m")));
deserialize_from_text!(SizeValue, |text| size(text)
    .ok_or_else(|| format!("{text:?} is not a size such as 65536, 64Mi or 128M")));
deserialize_from_text!(Sha256, |text| sha256(text)
    .ok_or_else(|| format!("{text:?} is not a sha256: 64 hexadecimal digits")));
deserialize_from_text!(VersionRange, |text| VersionRange::parse(text));
deserialize_from_text!(PemKey, |text| PublicKey::from_pem(text)
    .map(PemKey)
    .map_err(|error| error.to_string()));
deserialize_from_text!(SigningDate, |text| text
    .parse()
    .map_err(|error: crate::SigningDateError| error.to_string()));
deserialize_from_text!(PodPattern, |text| PodPattern::parse(text)
    .map_err(|error| error.to_string()));
deserialize_from_text!(Directory, |text| absolute_directory(text)
    .map(Directory)
    .map_err(|error| error.to_string()));

struct DangerousVisitor;

impl<'de> Visitor<'de> for DangerousVisitor {
    type Value = Dangerous;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a path, a mapping with `path` and a condition, or a kind of the dangerous set")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Dangerous, E> {
        if text.starts_with('/') {
            let path = ConditionedPath::parse(text).map_err(E::custom)?;
            return Ok(Dangerous::Path(Box::new(path)));
        }
        let kind = text.parse::<DangerKind>();
        kind.map(Dangerous::Kind).map_err(E::custom)
    }

    fn visit_map<A: MapAccess<'de>>(self, entries: A) -> Result<Dangerous, A::Error> {
        let path = ConditionedPath::deserialize(MapAccessDeserializer::new(entries))?;
        Ok(Dangerous::Path(Box::new(path)))
    }
}

impl<'de> Deserialize<'de> for Dangerous {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(DangerousVisitor)
    }
}

/// A public key in PEM.
struct PemKey(PublicKey);

/// A key with a condition.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct DatedKey {
    key: PemKey,
    not_before: Option<WithPosition<SigningDate>>,
}

struct SignerKeyVisitor;

impl<'de> Visitor<'de> for SignerKeyVisitor {
    type Value = SignerKey;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a public key in PEM, or a mapping with key and notBefore")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<SignerKey, E> {
        let key = PublicKey::from_pem(text).map_err(E::custom)?;
        Ok(SignerKey {
            key,
            not_before: None,
        })
    }

    fn visit_map<A: MapAccess<'de>>(self, entries: A) -> Result<SignerKey, A::Error> {
        let DatedKey { key, not_before } =
            DatedKey::deserialize(MapAccessDeserializer::new(entries))?;
        Ok(SignerKey {
            key: key.0,
            not_before,
        })
    }
}

impl<'de> Deserialize<'de> for SignerKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(SignerKeyVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_gos_and_sizes_are_kubernetes_quantities() {
        for (text, milliseconds) in [("250ms", 250), ("2s", 2000), ("1.5s", 1500), ("1m", 60_000)] {
            let expected = Some(DurationValue(Duration::from_millis(milliseconds)));
            assert_eq!(duration(text), expected, "{text}");
        }
        for invalid in ["2", "s", "2 s", "2d", "-1s", "99999999999999999999s"] {
            assert_eq!(duration(invalid), None, "{invalid}");
        }
        for (text, expected) in [
            ("64Mi", 64 << 20),
            ("7", 7),
            ("128M", 128_000_000),
            ("0.5Gi", 512 << 20),
        ] {
            assert_eq!(size(text), Some(SizeValue(expected)), "{text}");
        }
        for invalid in [
            "",
            "Mi",
            "1X",
            "-1",
            "99999999999Gi",
            "18446744073709551615Ki",
        ] {
            assert_eq!(size(invalid), None, "{invalid}");
        }
        let digest = "A".repeat(64);
        assert_eq!(
            sha256(&format!("sha256:{digest}")),
            Some(Sha256("a".repeat(64)))
        );
        assert_eq!(sha256(&digest[1..]), None);
    }
}
