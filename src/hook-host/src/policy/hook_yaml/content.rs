//! The keys of `hook.yaml`.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::policy::policy_error::YamlPosition;
use crate::policy::version_requirements::Requires;
use crate::policy::yaml_values::{Directory, DurationValue, Sha256, SizeValue, WithPosition};
use crate::{ConditionedPath, FailurePolicy, HookPoint, PodPattern};

/// The content of a `hook.yaml`. [`super::HookYaml`] documents the keys.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(in crate::policy) struct Content {
    pub(in crate::policy) sha256: Option<WithPosition<Sha256>>,
    pub(in crate::policy) priority: Option<WithPosition<i32>>,
    pub(in crate::policy) hook_points: Option<WithPosition<Vec<HookPointOverride>>>,
    pub(in crate::policy) failure_policy: Option<WithPosition<FailurePolicy>>,
    pub(in crate::policy) deadline: Option<WithPosition<DurationValue>>,
    pub(in crate::policy) memory: Option<WithPosition<SizeValue>>,
    pub(in crate::policy) output: Option<WithPosition<SizeValue>>,
    pub(in crate::policy) log: Option<WithPosition<SizeValue>>,
    pub(in crate::policy) config: BTreeMap<String, WithPosition<String>>,
    pub(in crate::policy) allow: AllowSection,
    pub(in crate::policy) requires: Option<Requires>,
}

/// An item of `hookPoints`.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(in crate::policy) struct HookPointOverride {
    pub(in crate::policy) name: WithPosition<HookPointName>,
    pub(in crate::policy) priority: Option<i32>,
}

/// The name of a hook point, as KubeVirt spells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(in crate::policy) enum HookPointName {
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
pub(in crate::policy) struct AllowSection {
    pub(in crate::policy) paths: Option<WithPosition<Vec<WithPosition<ConditionedPath>>>>,
    pub(in crate::policy) dirs: Option<WithPosition<Vec<WithPosition<Directory>>>>,
    pub(in crate::policy) pod: Option<WithPosition<Vec<PodPattern>>>,
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
    pub(in crate::policy) fn first_module_only_key(&self) -> Option<(&'static str, YamlPosition)> {
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
