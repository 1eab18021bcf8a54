//! `requires` of `hook.yaml`: the versions that a hook needs around it.

use semver::Version;
use serde::Deserialize;

use super::strict_yaml::YamlPosition;
use super::version_range::VersionRange;
use super::yaml_values::Located;

/// The section of `hook.yaml`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Requires {
    libvirt: Option<Located<VersionRange>>,
    kubevirt: Option<Located<VersionRange>>,
    hooks: Option<Located<VersionRange>>,
}

/// The versions that `requires` is compared with. That of the WIT package (`hooks`) is always known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostVersions {
    /// libvirt's.
    pub libvirt: Option<Version>,
    /// KubeVirt's.
    pub kubevirt: Option<Version>,
    /// What a requirement means whose version is not known.
    pub unknown: UnknownVersion,
}

/// What a requirement means whose version is not known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum UnknownVersion {
    /// The hook is refused.
    #[default]
    Refuse,
    /// It is logged, and the hook runs: on a developer's machine, where no virtual machine starts.
    Warn,
}

/// How a requirement is met.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requirement {
    /// `libvirt`, `kubevirt` or `hooks`.
    pub name: &'static str,
    /// The range, normalized.
    pub range: String,
    /// The version that it was compared with; `None` if it is not known.
    pub found: Option<Version>,
    /// Whether the version is in the range.
    pub is_met: bool,
    pub(super) position: YamlPosition,
}

impl Requires {
    /// The requirements, compared with the versions; `package` is that of the WIT package.
    pub(super) fn compare(&self, package: &Version, versions: &HostVersions) -> Vec<Requirement> {
        let Requires {
            libvirt,
            kubevirt,
            hooks,
        } = self;
        let ranges = [
            ("libvirt", libvirt, versions.libvirt.clone()),
            ("kubevirt", kubevirt, versions.kubevirt.clone()),
            ("hooks", hooks, Some(package.clone())),
        ];
        let required = ranges.into_iter().filter_map(|(name, range, found)| {
            let range = range.as_ref()?;
            let is_met = found
                .as_ref()
                .is_some_and(|found| range.get().contains(found));
            Some(Requirement {
                name,
                range: range.get().to_string(),
                found,
                is_met,
                position: range.position(),
            })
        });
        required.collect()
    }
}

impl std::fmt::Display for Requirement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            name,
            range,
            found,
            is_met,
            ..
        } = self;
        let what = match *name {
            "hooks" => "the WIT package virt-hook:hooks",
            "kubevirt" => "KubeVirt",
            other => other,
        };
        match found {
            Some(found) if *is_met => write!(f, "{what} {found} is in the required range {range}"),
            Some(found) => write!(
                f,
                "the hook requires {name} {range}, and this is {what} {found}: use a version of the hook for it, \
                 or an image with another {name}"
            ),
            None => write!(
                f,
                "the hook requires {name} {range}, and the version of {what} is not known here: give it with \
                 --{name}-version, or remove the line"
            ),
        }
    }
}
