//! `hook.yaml`: the virtual machine owner's settings for a module.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cap_std::fs::Dir;
use semver::Version;
use serde::Deserialize;

use super::requires::{HostVersions, Requirement, Requires, UnknownVersion};
use super::strict_yaml::{self, PolicyError, YamlPosition};
use super::yaml_values::{Directory, DurationValue, Located, Pattern, Sha256, SizeValue};
use crate::description::MAX_WISHES;
use crate::digest::DigestPin;
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
    pub(super) allow: Allowed,
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
pub(super) struct Allowed {
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
        strict_yaml::text_at(path)
    }

    /// Reads `hook.yaml` in a hook's directory, if it exists.
    pub(crate) fn read(dir: &Dir, path: &Path) -> Result<Option<Self>, PolicyError> {
        let text = strict_yaml::text_in(dir, FILE, path)?;
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
mod tests {
    use super::*;

    fn wrong(text: &str) -> String {
        HookYaml::parse(Path::new("h/hook.yaml"), text)
            .unwrap_err()
            .to_string()
    }

    #[test]
    fn all_keys_are_read() {
        let text = "sha256: sha256:AB\npriority: -3\nhookPoints:\n- name: Shutdown\n- {name: PreStart, priority: 4}\n\
            failurePolicy: DryRun\ndeadline: 250ms\nmemory: 2Mi\noutput: 96Ki\nlog: 1Ki\n\
            config: {a: b, n: 7}\nallow:\n  paths: ['/domain/sysinfo/**']\n  dirs: [/etc/hook]\n";
        let text = text.replace("AB", &"AB".repeat(32));
        let yaml = HookYaml::parse(Path::new("hook.yaml"), &text).unwrap();
        assert_eq!(yaml.sha256(), Some("ab".repeat(32).as_str()));
        let content = yaml.content;
        assert_eq!(content.priority, Some(-3));
        assert_eq!(content.hook_points.unwrap()[1].priority, Some(4));
        assert_eq!(content.deadline.unwrap().get().0.as_millis(), 250);
        assert_eq!(content.output.unwrap().get().0, 96 << 10);
        assert_eq!(content.config["n"].get(), "7");
        assert_eq!(content.allow.paths.unwrap().get().len(), 1);
        assert!(HookYaml::parse(Path::new("h"), "{}").is_ok());
    }

    #[test]
    fn a_key_without_a_value_is_refused() {
        for text in [
            "",
            "# nothing\n",
            "---\n",
            "~\n",
            "sha256:",
            "priority:",
            "hookPoints:",
            "deadline: ~",
            "failurePolicy: null",
            "memory:",
            "output:",
            "log:",
            "config:",
            "config: {a: }",
            "allow:",
            "allow: {paths: }",
            "allow: {paths: ~}",
            "allow: {dirs: null}",
            "hookPoints: [{name: Shutdown, priority: }]",
        ] {
            assert!(wrong(text).starts_with("h/hook.yaml:1:"), "{text:?}");
        }
    }

    #[test]
    fn mistakes_are_refused_with_their_position() {
        for (text, start, part) in [
            (
                "priority: 1\nprioritty: 2\n",
                "h/hook.yaml:2:1: ",
                "prioritty",
            ),
            ("priority: high\n", "h/hook.yaml:1:11: ", "i32"),
            (
                "priority: 1\npriority: 2\n",
                "h/hook.yaml:2:1: ",
                "priority",
            ),
            ("a: [\n", "h/hook.yaml:", ""),
            ("failurePolicy: Ignorre\n", "h/hook.yaml:1:", "Ignorre"),
            ("deadline: 2\n", "h/hook.yaml:1:11: ", "no duration"),
            ("deadline: 16s\n", "h/hook.yaml:1:11: ", "15s"),
            ("memory: 1Gi\n", "h/hook.yaml:1:9: ", "536870912"),
            ("memory: 1k\n", "h/hook.yaml:1:9: ", "no size"),
            ("allow:\n  path: []\n", "h/hook.yaml:2:3: ", "path"),
            (
                "allow:\n  paths: ['/domain/[']\n",
                "h/hook.yaml:2:",
                "/domain/[",
            ),
            (
                "allow:\n  paths: [devices/disk]\n",
                "h/hook.yaml:2:11: ",
                "begin with /domain/",
            ),
            ("allow:\n  dirs: [/a/../b]\n", "h/hook.yaml:2:10: ", ".."),
            ("sha256: abc\n", "h/hook.yaml:1:9: ", "64 hexadecimal"),
            ("hookPoints: [{name: Never}]\n", "h/hook.yaml:1:", "Never"),
            (
                "hookPoints:\n- name: Shutdown\n- name: Shutdown\n",
                "h/hook.yaml:3:9: ",
                "twice",
            ),
            ("config: [a]\n", "h/hook.yaml:1:9: ", ""),
            ("config: {a: {b: c}}\n", "h/hook.yaml:1:", ""),
            ("a: &x 1\n", "h/hook.yaml:", ""),
            ("{}\n---\n{}\n", "h/hook.yaml:", ""),
            ("[]\n", "h/hook.yaml:1:1: ", ""),
        ] {
            let error = wrong(text);
            assert!(
                error.starts_with(start) && error.contains(part),
                "{text:?}: {error}"
            );
            assert!(!error.contains('\n'), "{error}");
        }
    }
}
