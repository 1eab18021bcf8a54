//! `hook.yaml`: the virtual machine owner's settings for a module.

#[cfg(test)]
mod requires_tests;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cap_std::fs::Dir;
use semver::Version;
use serde::Deserialize;

use super::policy_file::{PolicyError, YamlPosition};
use super::version_requirements::{HostVersions, Requirement, UnknownVersion};
use super::{policy_file, strict_yaml};
use crate::digest_pin::DigestPin;
use crate::module_description::MAX_WISHES;
use crate::policy::version_requirements::Requires;
use crate::policy::yaml_values::{Directory, DurationValue, Sha256, SizeValue, WithPosition};
use crate::{ConditionedPath, FailurePolicy, HookPoint, PodPattern};

/// The name of the file, which is beside the module.
pub(crate) const FILE_NAME: &str = "hook.yaml";
/// Maximum of `deadline` in hook.yaml and in the operator's policy.
pub(crate) const MAX_DEADLINE: Duration = Duration::from_secs(15);
/// Maximum of `memory` in bytes.
pub(crate) const MAX_MEMORY: usize = 512 << 20;
/// Minimum of `output` in bytes: the size of an ordinary domain, which a module must be able to return.
pub(super) const MIN_OUTPUT: usize = 64 << 10;
/// Maximum of `output` in bytes.
pub(crate) const MAX_OUTPUT: usize = 64 << 20;
/// Maximum of `log` in bytes.
pub(crate) const MAX_LOG: usize = 1 << 20;
/// Minimum of `memory` in bytes, less than any module needs to start.
pub(super) const MIN_MEMORY: usize = 1 << 20;

/// The virtual machine owner's settings for a module, in `hook.yaml` beside it; if there are
/// several modules, for each of them. All keys are optional. Beside a gRPC sidecar's socket only
/// `priority`, `hookPoints`, `failurePolicy` and `requires` are allowed.
///
/// ```yaml
/// sha256: 2c26...             # the module must have this digest
/// priority: 10                # instead of the priority in the module's description
/// hookPoints:                 # only these of the module's own hook points
///   - name: OnDefineDomain
///     priority: 20
/// failurePolicy: Fail         # Fail (default) | Ignore | DryRun
/// deadline: 2s                # one call;        default 2s,    at most 15s
/// memory: 64Mi                # linear memories; default 64Mi,  at most 512Mi
/// output: 4Mi                 # output;          default 4Mi,   at most 64Mi
/// log: 64Ki                   # log lines;       default 64Ki,  at most 1Mi
/// config:                     # keys that the module reads with `config`
///   manufacturer: ACME
/// allow:                      # narrows the wishes of the module
///   paths: ["/domain/sysinfo/baseBoard/**"]
///   dirs: ["/etc/hook"]       # read-only; the operator must allow it too
///   pod: ["network-status/*"] # facts about the pod; if absent, all that the module declares
/// requires:                   # versions; a hook for other versions is refused
///   libvirt: ">=11.0"
///   kubevirt: ">=1.9, <2"
///   hooks: "0.1"              # the WIT package
/// ```
#[derive(Debug, Clone)]
pub struct HookYaml {
    pub(super) path: PathBuf,
    pub(super) content: Content,
}

impl HookYaml {
    /// Parses the text of a `hook.yaml`. Errors name the file `path`.
    pub fn parse(path: &Path, text: &str) -> Result<Self, PolicyError> {
        let yaml = Self {
            path: path.to_owned(),
            content: strict_yaml::parse(path, text)?,
        };
        yaml.check_ceilings()?;
        yaml.check_hook_points_unique()?;
        Ok(yaml)
    }

    /// The text of the file at a path; `None` if the file does not exist. As in a collection, the file must be a
    /// regular one of limited size, and links are followed within its directory only.
    pub fn text(path: &Path) -> Result<Option<String>, PolicyError> {
        policy_file::read_at(path)
    }

    /// Reads `hook.yaml` in a hook's directory, if it exists.
    pub(crate) fn read(dir: &Dir, path: &Path) -> Result<Option<Self>, PolicyError> {
        let text = policy_file::read_in(dir, FILE_NAME, path)?;
        text.map(|text| Self::parse(path, &text)).transpose()
    }

    /// The digest that the module must have, in lower-case hexadecimal.
    #[must_use]
    pub fn sha256(&self) -> Option<&str> {
        self.content.sha256.as_ref().map(|pin| pin.get().0.as_str())
    }

    /// The hook points to which the module is narrowed; `None` for all of its hook points.
    #[must_use]
    pub fn hook_points(&self) -> Option<Vec<HookPoint>> {
        let points = self.content.hook_points.as_ref()?.get().iter();
        Some(
            points
                .map(|entry| HookPoint::from(*entry.name.get()))
                .collect(),
        )
    }

    /// The digest that the module must have, with its position.
    pub(crate) fn pin(&self) -> Option<DigestPin> {
        let pin = self.content.sha256.as_ref()?;
        Some(DigestPin {
            sha256: pin.get().0.clone(),
            place: self.at(pin.position()),
        })
    }

    /// The requirements, compared with the versions; `package` is the version of the WIT package.
    #[must_use]
    pub fn requirements(&self, package: &Version, versions: &HostVersions) -> Vec<Requirement> {
        let requires = self.content.requires.iter();
        requires
            .flat_map(|requires| requires.compare(package, versions))
            .collect()
    }

    /// Refuses a hook whose requirements are not met. Returns the requirements whose version is not known.
    pub(crate) fn require(
        &self,
        package: &Version,
        versions: &HostVersions,
    ) -> Result<Vec<String>, PolicyError> {
        let mut unknown = Vec::new();
        for requirement in self.requirements(package, versions) {
            match (&requirement.found, versions.unknown) {
                _ if requirement.is_met => {}
                (None, UnknownVersion::Warn) => unknown.push(requirement.to_string()),
                _ => return Err(self.error_at(requirement.position, requirement.to_string())),
            }
        }
        Ok(unknown)
    }

    /// A position as `FILE:LINE:COLUMN`.
    pub(super) fn at(&self, position: YamlPosition) -> String {
        let path = self.path.display();
        format!("{path}:{}:{}", position.line, position.column)
    }

    pub(super) fn error_at(
        &self,
        position: YamlPosition,
        reason: impl Into<String>,
    ) -> PolicyError {
        PolicyError::at(&self.path, position, reason)
    }

    fn check_ceilings(&self) -> Result<(), PolicyError> {
        let content = &self.content;
        if let Some(deadline) = &content.deadline
            && !(Duration::from_millis(1)..=MAX_DEADLINE).contains(&deadline.get().0)
        {
            let reason = format!(
                "a deadline is from 1ms to {MAX_DEADLINE:?}, not {:?}",
                deadline.get().0
            );
            return Err(self.error_at(deadline.position(), reason));
        }
        if let Some(paths) = &content.allow.paths
            && paths.get().len() > MAX_WISHES
        {
            let reason = format!("{} paths, more than {MAX_WISHES}", paths.get().len());
            return Err(self.error_at(paths.position(), reason));
        }
        for (name, value, min, max) in [
            ("memory", &content.memory, MIN_MEMORY, MAX_MEMORY),
            ("output", &content.output, MIN_OUTPUT, MAX_OUTPUT),
            ("log", &content.log, 0, MAX_LOG),
        ] {
            if let Some(value) = value
                && !(min..=max).contains(&value.get().0)
            {
                let reason = format!("{name} is from {min} to {max} bytes, not {}", value.get().0);
                return Err(self.error_at(value.position(), reason));
            }
        }
        Ok(())
    }

    fn check_hook_points_unique(&self) -> Result<(), PolicyError> {
        let points = self.content.hook_points.as_ref();
        let points = points.map_or(&[][..], |points| points.get());
        for (index, point) in points.iter().enumerate() {
            let is_same = |other: &HookPointOverride| other.name.get() == point.name.get();
            if points[..index].iter().any(is_same) {
                let reason = format!("{:?} is named twice", point.name.get());
                return Err(self.error_at(point.name.position(), reason));
            }
        }
        Ok(())
    }
}

/// The content of a `hook.yaml`. [`HookYaml`] documents the keys.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct Content {
    pub(super) sha256: Option<WithPosition<Sha256>>,
    pub(super) priority: Option<WithPosition<i32>>,
    pub(super) hook_points: Option<WithPosition<Vec<HookPointOverride>>>,
    pub(super) failure_policy: Option<WithPosition<FailurePolicy>>,
    pub(super) deadline: Option<WithPosition<DurationValue>>,
    pub(super) memory: Option<WithPosition<SizeValue>>,
    pub(super) output: Option<WithPosition<SizeValue>>,
    pub(super) log: Option<WithPosition<SizeValue>>,
    pub(super) config: BTreeMap<String, WithPosition<String>>,
    pub(super) allow: AllowSection,
    pub(super) requires: Option<Requires>,
}

/// An item of `hookPoints`.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct HookPointOverride {
    pub(super) name: WithPosition<HookPointName>,
    pub(super) priority: Option<i32>,
}

/// The name of a hook point, as KubeVirt spells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(super) enum HookPointName {
    PreStart,
    PreCloudInitIso,
    OnDefineDomain,
    OnAttachDevice,
    PreMigrationSource,
    Shutdown,
}

/// The section `allow`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct AllowSection {
    pub(super) paths: Option<WithPosition<Vec<WithPosition<ConditionedPath>>>>,
    pub(super) dirs: Option<WithPosition<Vec<WithPosition<Directory>>>>,
    pub(super) pod: Option<WithPosition<Vec<PodPattern>>>,
}

impl From<HookPointName> for HookPoint {
    fn from(point: HookPointName) -> Self {
        match point {
            HookPointName::PreStart => Self::PreStart,
            HookPointName::PreCloudInitIso => Self::PreCloudInitIso,
            HookPointName::OnDefineDomain => Self::OnDefineDomain,
            HookPointName::OnAttachDevice => Self::OnAttachDevice,
            HookPointName::PreMigrationSource => Self::PreMigrationSource,
            HookPointName::Shutdown => Self::Shutdown,
        }
    }
}

impl Content {
    /// The first key that is not allowed for a gRPC sidecar.
    pub(super) fn first_module_only_key(&self) -> Option<(&'static str, YamlPosition)> {
        let Self {
            sha256,
            priority: _,
            hook_points: _,
            failure_policy: _,
            deadline,
            memory,
            output,
            log,
            config,
            allow,
            requires: _,
        } = self;
        let position =
            |key, position: Option<YamlPosition>| position.map(|position| (key, position));
        position("sha256", sha256.as_ref().map(WithPosition::position))
            .or(position(
                "deadline",
                deadline.as_ref().map(WithPosition::position),
            ))
            .or(position(
                "memory",
                memory.as_ref().map(WithPosition::position),
            ))
            .or(position(
                "output",
                output.as_ref().map(WithPosition::position),
            ))
            .or(position("log", log.as_ref().map(WithPosition::position)))
            .or(position(
                "config",
                config.values().next().map(WithPosition::position),
            ))
            .or(position(
                "allow.paths",
                allow.paths.as_ref().map(WithPosition::position),
            ))
            .or(position(
                "allow.dirs",
                allow.dirs.as_ref().map(WithPosition::position),
            ))
            .or(position(
                "allow.pod",
                allow.pod.as_ref().map(WithPosition::position),
            ))
    }
}

#[cfg(test)]
mod tests;
