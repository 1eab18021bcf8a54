//! `requires` of `hook.yaml`: the versions of libvirt, KubeVirt and the WIT package that a hook needs.

use semver::Version;
use serde::Deserialize;

use super::policy_file::YamlPosition;
use super::version_range::VersionRange;
use super::yaml_values::WithPosition;

/// The section `requires` of `hook.yaml`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Requires {
    libvirt: Option<WithPosition<VersionRange>>,
    kubevirt: Option<WithPosition<VersionRange>>,
    hooks: Option<WithPosition<VersionRange>>,
}

/// The versions with which `requires` is compared. The version of the WIT package (`hooks`) is always known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostVersions {
    /// The version of libvirt.
    pub libvirt: Option<Version>,
    /// The version of KubeVirt.
    pub kubevirt: Option<Version>,
    /// How a requirement is handled whose version is not known here.
    pub unknown: UnknownVersion,
}

/// How a requirement is handled whose version is not known here.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum UnknownVersion {
    /// The hook is refused.
    #[default]
    Refuse,
    /// The requirement is logged, and the hook runs. For a developer's machine, on which no virtual machine starts.
    Warn,
}

/// A requirement, compared with a version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requirement {
    /// `libvirt`, `kubevirt` or `hooks`.
    pub name: &'static str,
    /// The range, normalized.
    pub range: String,
    /// The version that was compared; `None` if it is not known.
    pub found: Option<Version>,
    /// Whether the version is in the range.
    pub is_met: bool,
    pub(super) position: YamlPosition,
}

impl Requires {
    /// The requirements, compared with the versions; `package` is the version of the WIT package.
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
