//! Ranges of versions in policy files.

use semver::{Version, VersionReq};

/// Maximum length of a range in bytes.
const MAX_RANGE_BYTES: usize = 256;

/// A range such as `>=11.0, <13`. A version without an operator means `^`: `11.3` is `>=11.3.0, <12.0.0`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct VersionRange(VersionReq);

impl VersionRange {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if text.len() > MAX_RANGE_BYTES {
            return Err(format!(
                "a version range has at most {MAX_RANGE_BYTES} bytes"
            ));
        }
        VersionReq::parse(text).map(Self).map_err(|error| {
            format!("{text:?} is not a version range such as \">=11.0, <13\" or \"1.9\": {error}")
        })
    }

    /// Whether the version is in the range. `1.10.0-rc.1` counts as 1.10.0, because a pre-release has the features of
    /// its release.
    pub(super) fn contains(&self, version: &Version) -> bool {
        let release = Version::new(version.major, version.minor, version.patch);
        self.0.matches(version) || self.0.matches(&release)
    }
}

impl std::fmt::Display for VersionRange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}
