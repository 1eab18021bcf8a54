//! The versions of KubeVirt that the launcher can stand in for, and which of them a release is.
//!
//! What the versions do differently is a table of the crate `domain`.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A minor version of KubeVirt that this launcher can stand in for. Patch releases behave alike.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub enum KubeVirtVersion {
    /// v1.8.
    #[serde(rename = "1.8")]
    V1_8,
    /// v1.9, which is assumed where the version is unknown.
    #[default]
    #[serde(rename = "1.9")]
    V1_9,
    /// v1.10, as of August 2026, before its release.
    #[serde(rename = "1.10")]
    V1_10,
}

/// The version whose behaviour a release gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Support {
    /// The version.
    pub version: KubeVirtVersion,
    /// Whether the release is newer than every version in the table, and gets the newest one's behaviour.
    pub is_newer: bool,
}

/// A release that this launcher cannot stand in for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnsupportedRelease {
    /// The text does not begin with `v` and two numbers.
    #[error("{0:?} is no release of KubeVirt such as v1.8.4, v1.9.0 or v1.10")]
    NotARelease(String),
    /// The release is older than the oldest version in the table.
    #[error(
        "KubeVirt {0} is not supported: this launcher stands in for those of v1.8, v1.9 and v1.10"
    )]
    TooOld(String),
}

impl KubeVirtVersion {
    /// All versions, oldest first.
    pub const ALL: [Self; 3] = [Self::V1_8, Self::V1_9, Self::V1_10];

    /// The version whose behaviour a release gets: `v1.9.0`, `1.10`, or what `git describe` makes of a commit after one.
    ///
    /// # Errors
    /// [`UnsupportedRelease`] if the text is no release, or the release is older than v1.8.
    pub fn supporting(release: &str) -> Result<Support, UnsupportedRelease> {
        let numbers = release.strip_prefix('v').unwrap_or(release);
        let mut numbers = numbers.split(|letter: char| !letter.is_ascii_digit());
        let mut number = || numbers.next()?.parse::<u32>().ok();
        let (Some(major), Some(minor)) = (number(), number()) else {
            return Err(UnsupportedRelease::NotARelease(release.to_owned()));
        };
        let (version, is_newer) = match (major, minor) {
            (0, _) | (1, 0..=7) => return Err(UnsupportedRelease::TooOld(release.to_owned())),
            (1, 8) => (Self::V1_8, false),
            (1, 9) => (Self::V1_9, false),
            (1, 10) => (Self::V1_10, false),
            _ => (Self::V1_10, true),
        };
        Ok(Support { version, is_newer })
    }

    /// The minor version: 9 of v1.9.
    #[must_use]
    pub const fn minor(self) -> u64 {
        match self {
            Self::V1_8 => 8,
            Self::V1_9 => 9,
            Self::V1_10 => 10,
        }
    }
}

impl fmt::Display for KubeVirtVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v1.{}", self.minor())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_has_the_behaviour_of_its_minor_version() {
        use KubeVirtVersion::{V1_8, V1_9, V1_10};
        for (release, version, is_newer) in [
            ("v1.8.4", V1_8, false),
            ("1.9", V1_9, false),
            ("v1.9.0-12-g0123456", V1_9, false),
            ("v1.10.0-rc.1", V1_10, false),
            ("v1.11.0", V1_10, true),
            ("v2.0.0", V1_10, true),
        ] {
            let support = Support { version, is_newer };
            assert_eq!(
                KubeVirtVersion::supporting(release),
                Ok(support),
                "{release}"
            );
        }
        for release in ["v1.7.4", "v0.59.0", "1.0"] {
            let error = UnsupportedRelease::TooOld(release.to_owned());
            assert_eq!(KubeVirtVersion::supporting(release), Err(error));
        }
        for text in ["", "latest", "v1", "{gitVersion}", "v1.x"] {
            let error = UnsupportedRelease::NotARelease(text.to_owned());
            assert_eq!(KubeVirtVersion::supporting(text), Err(error));
        }
    }
}
