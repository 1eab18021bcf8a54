//! `hook.yaml`: the virtual machine owner's settings for a module.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cap_std::fs::Dir;
use semver::Version;
use serde::Deserialize;

use super::read_policy_file;
use super::strict_yaml::{self, PolicyError, YamlPosition};
use super::version_requirements::{HostVersions, Requirement, Requires, UnknownVersion};
use super::yaml_values::{Directory, DurationValue, Located, Pattern, Sha256, SizeValue};
use crate::description::MAX_WISHES;
use crate::digest_pin::DigestPin;
use crate::{FailurePolicy, HookPoint, PodPattern};

/// The file name, beside the module.
pub(crate) const FILE: &str = "hook.yaml";

/// The maximum for hook.yaml and for the operator's policy.
pub(crate) const MAX_DEADLINE: Duration = Duration::from_secs(15);
pub(crate) const MAX_MEMORY: usize = 512 << 20;
/// Room for a domain of ordinary size; with less, no module could return any.
pub(super) const MIN_OUTPUT: usize = 64 << 10;
pub(crate) const MAX_OUTPUT: usize = 64 << 20;
pub(crate) const MAX_LOG: usize = 1 << 20;
/// Less memory than any module needs to start.
pub(super) const MIN_MEMORY: usize = 1 << 20;

/// The virtual machine owner's settings for a module, in `hook.yaml` beside it; if there are
/// several modules, for each of them. All keys are optional. Beside a gRPC sidecar's socket only
/// `priority`, `hookPoints`, `failurePolicy` and `requires` are allowed.
///
/// ```yaml
/// sha256: 2c26...             # the module must have this digest
/// priority: 10                # instead of what the module says of itself
/// hookPoints:                 # only these of the module's own hook points
///   - name: OnDefineDomain
///     priority: 20
/// failurePolicy: Fail         # Fail (default) | Ignore | DryRun
/// deadline: 2s                # one call;        default 2s,    at most 15s
/// memory: 64Mi                # linear memories; default 64Mi,  at most 512Mi
/// output: 4Mi                 # what it returns; default 4Mi,   at most 64Mi
/// log: 64Ki                   # what it logs;    default 64Ki,  at most 1Mi
/// config:                     # what the module reads with `config`
///   manufacturer: ACME
/// allow:                      # narrows what the module wishes for
///   paths: ["/domain/sysinfo/**"]
///   dirs: ["/etc/hook"]       # read-only, and never without this
///   pod: ["network-status/*"] # facts about the pod; what the module declares when left out
/// requires:                   # what the hook needs; else it is refused
///   libvirt: ">=11.0"
///   kubevirt: ">=1.9, <2"
///   hooks: "0.1"              # the WIT package
/// ```
#[derive(Debug, Clone)]
pub struct HookYaml {
    pub(super) path: PathBuf,
    pub(super) content: Content,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct Content {
    pub(super) sha256: Option<Located<Sha256>>,
    pub(super) priority: Option<i32>,
    pub(super) hook_points: Option<Vec<PointOverride>>,
    pub(super) failure_policy: Option<Located<FailurePolicy>>,
    pub(super) deadline: Option<Located<DurationValue>>,
    pub(super) memory: Option<Located<SizeValue>>,
    pub(super) output: Option<Located<SizeValue>>,
    pub(super) log: Option<Located<SizeValue>>,
    pub(super) config: BTreeMap<String, Located<String>>,
    pub(super) allow: AllowSection,
    pub(super) requires: Option<Requires>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct PointOverride {
    pub(super) name: Located<Point>,
    pub(super) priority: Option<i32>,
}

/// A hook point by KubeVirt's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(super) enum Point {
    PreStart,
    PreCloudInitIso,
    OnDefineDomain,
    OnAttachDevice,
    PreMigrationSource,
    Shutdown,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct AllowSection {
    pub(super) paths: Option<Located<Vec<Located<Pattern>>>>,
    pub(super) dirs: Option<Located<Vec<Located<Directory>>>>,
    pub(super) pod: Option<Located<Vec<PodPattern>>>,
}

impl From<Point> for HookPoint {
    fn from(point: Point) -> Self {
        match point {
            Point::PreStart => Self::PreStart,
            Point::PreCloudInitIso => Self::PreCloudInitIso,
            Point::OnDefineDomain => Self::OnDefineDomain,
            Point::OnAttachDevice => Self::OnAttachDevice,
            Point::PreMigrationSource => Self::PreMigrationSource,
            Point::Shutdown => Self::Shutdown,
        }
    }
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

    /// The text of the file at a path, if it exists, as a collection reads it: a regular file of limited size, to which
    /// links lead within its directory only.
    pub fn text(path: &Path) -> Result<Option<String>, PolicyError> {
        read_policy_file::text_at(path)
    }

    /// Reads `hook.yaml` in a hook's directory, if it exists.
    pub(crate) fn read(dir: &Dir, path: &Path) -> Result<Option<Self>, PolicyError> {
        let text = read_policy_file::text_in(dir, FILE, path)?;
        text.map(|text| Self::parse(path, &text)).transpose()
    }

    /// The first key that is not allowed for a gRPC sidecar.
    pub(super) fn first_module_only_key(&self) -> Option<(&'static str, YamlPosition)> {
        let Content {
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
        } = &self.content;
        let position =
            |key, position: Option<YamlPosition>| position.map(|position| (key, position));
        position("sha256", sha256.as_ref().map(Located::position))
            .or(position(
                "deadline",
                deadline.as_ref().map(Located::position),
            ))
            .or(position("memory", memory.as_ref().map(Located::position)))
            .or(position("output", output.as_ref().map(Located::position)))
            .or(position("log", log.as_ref().map(Located::position)))
            .or(position(
                "config",
                config.values().next().map(Located::position),
            ))
            .or(position(
                "allow.paths",
                allow.paths.as_ref().map(Located::position),
            ))
            .or(position(
                "allow.dirs",
                allow.dirs.as_ref().map(Located::position),
            ))
            .or(position(
                "allow.pod",
                allow.pod.as_ref().map(Located::position),
            ))
    }

    /// The digest that the module must have, in lower-case hexadecimal.
    #[must_use]
    pub fn sha256(&self) -> Option<&str> {
        self.content.sha256.as_ref().map(|pin| pin.get().0.as_str())
    }

    /// The hook points that are left of the module's; `None` for all of them.
    #[must_use]
    pub fn hook_points(&self) -> Option<Vec<HookPoint>> {
        let points = self.content.hook_points.as_ref()?.iter();
        Some(
            points
                .map(|entry| HookPoint::from(*entry.name.get()))
                .collect(),
        )
    }

    /// The digest that the module must have, with its position.
    pub(crate) fn pin(&self) -> Option<DigestPin> {
        let pin = self.content.sha256.as_ref()?;
        let place = pin.position();
        Some(DigestPin {
            sha256: pin.get().0.clone(),
            place: format!("{}:{}:{}", self.path.display(), place.line, place.column),
        })
    }

    /// The requirements, compared with the versions; `package` is that of the WIT package.
    #[must_use]
    pub fn requirements(&self, package: &Version, versions: &HostVersions) -> Vec<Requirement> {
        let requires = self.content.requires.iter();
        requires
            .flat_map(|requires| requires.compare(package, versions))
            .collect()
    }

    /// Refuses a hook whose requirements are not met. The result are the requirements that are not known to be met.
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
                _ => return Err(self.wrong(requirement.position, requirement.to_string())),
            }
        }
        Ok(unknown)
    }

    pub(super) fn wrong(&self, place: YamlPosition, reason: impl Into<String>) -> PolicyError {
        PolicyError::at(&self.path, place, reason)
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
            return Err(self.wrong(deadline.position(), reason));
        }
        if let Some(paths) = &content.allow.paths
            && paths.get().len() > MAX_WISHES
        {
            let reason = format!("{} paths, more than {MAX_WISHES}", paths.get().len());
            return Err(self.wrong(paths.position(), reason));
        }
        for (name, value, least, most) in [
            ("memory", &content.memory, MIN_MEMORY, MAX_MEMORY),
            ("output", &content.output, MIN_OUTPUT, MAX_OUTPUT),
            ("log", &content.log, 0, MAX_LOG),
        ] {
            if let Some(value) = value
                && !(least..=most).contains(&value.get().0)
            {
                let reason = format!(
                    "{name} is from {least} to {most} bytes, not {}",
                    value.get().0
                );
                return Err(self.wrong(value.position(), reason));
            }
        }
        Ok(())
    }

    fn check_hook_points_unique(&self) -> Result<(), PolicyError> {
        let points = self.content.hook_points.as_deref().unwrap_or_default();
        for (index, point) in points.iter().enumerate() {
            let same = |other: &PointOverride| other.name.get() == point.name.get();
            if points[..index].iter().any(same) {
                let reason = format!("{:?} is named twice", point.name.get());
                return Err(self.wrong(point.name.position(), reason));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod requires_tests;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
