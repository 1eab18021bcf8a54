//! The JSON of KubeVirt's `Plugin` (v1.9 and v1.10) as virt-handler sends it, reduced to the hooks of the launcher. As
//! in Go, `null` means the same as an absent member. The names of unknown members are kept, so that a hook with one can
//! be refused.

use std::collections::BTreeMap;
use std::time::Duration;

use quantity::go_duration;
use quantity::go_duration::DurationError;
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer, de};

use super::domain_or_launcher_hooks::HookList;
use super::plugin_hook::{Action, Condition, PluginHook};
use super::{DEFAULT_TIMEOUT, IGNORE, MAX_TIMEOUT};
use crate::printable::printable;

/// Maximum length of a member's name in an error, in bytes.
const MAX_MEMBER_BYTES: usize = 128;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Plugin {
    #[serde(deserialize_with = "or_default")]
    pub(super) metadata: Metadata,
    #[serde(deserialize_with = "or_default")]
    pub(super) spec: Spec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Metadata {
    #[serde(deserialize_with = "or_default")]
    pub(super) name: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Spec {
    #[serde(deserialize_with = "or_default")]
    pub(super) condition: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) failure_strategy: String,
    /// Only in v1.9.
    #[serde(deserialize_with = "or_default")]
    pub(super) domain_hooks: Vec<Option<Hook>>,
    /// Only in v1.10.
    #[serde(deserialize_with = "or_default")]
    pub(super) launcher_hooks: Vec<Option<Hook>>,
    /// This member and the next four are for virt-handler and virt-operator, and are ignored.
    #[serde(rename = "nodeHooks")]
    _node_hooks: IgnoredAny,
    #[serde(rename = "mutatingAdmissionPolicies")]
    _mutating_policies: IgnoredAny,
    #[serde(rename = "validatingAdmissionPolicies")]
    _validating_policies: IgnoredAny,
    #[serde(rename = "mutatingAdmissionWebhooks")]
    _mutating_webhooks: IgnoredAny,
    #[serde(rename = "validatingAdmissionWebhooks")]
    _validating_webhooks: IgnoredAny,
    #[serde(flatten)]
    pub(super) unknown: UnknownMembers,
}

/// A hook of either list.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Hook {
    pub(super) cel: Option<Cel>,
    pub(super) sidecar: Option<Sidecar>,
    #[serde(deserialize_with = "or_default")]
    pub(super) condition: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) failure_strategy: String,
    #[serde(deserialize_with = "timeout")]
    pub(super) timeout: Option<Duration>,
    #[serde(flatten)]
    pub(super) unknown: UnknownMembers,
}

/// A CEL mutation. The expression is not read because it is not evaluated here.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Cel {
    #[serde(rename = "expression")]
    _expression: IgnoredAny,
    /// Only in v1.10.
    pub(super) hook_point: Option<String>,
    #[serde(flatten)]
    pub(super) unknown: UnknownMembers,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Sidecar {
    #[serde(deserialize_with = "or_default")]
    pub(super) socket_path: String,
    /// Only in v1.10.
    pub(super) permitted_hooks: Option<Vec<String>>,
    #[serde(flatten)]
    pub(super) unknown: UnknownMembers,
}

/// The members of an object that its type does not have, and whether each is not `null`.
#[derive(Debug, Default, Deserialize)]
#[serde(transparent)]
pub(super) struct UnknownMembers(BTreeMap<String, HasValue>);

#[derive(Debug)]
struct HasValue(bool);

impl UnknownMembers {
    /// The alphabetically first name of an unknown member that is not `null`, in printable form.
    pub(super) fn first(&self) -> Option<String> {
        let (name, _) = self.0.iter().find(|(_, value)| value.0)?;
        Some(printable(name, MAX_MEMBER_BYTES))
    }
}

impl<'de> Deserialize<'de> for HasValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Option::<IgnoredAny>::deserialize(deserializer)?;
        Ok(Self(value.is_some()))
    }
}

impl Plugin {
    /// Total length of the conditions in bytes.
    pub(super) fn condition_bytes(&self) -> usize {
        let lists = [&self.spec.domain_hooks, &self.spec.launcher_hooks];
        let hooks = lists.into_iter().flatten().flatten();
        self.spec.condition.len() + hooks.map(|hook| hook.condition.len()).sum::<usize>()
    }
}

/// Reads `null` as the default value.
fn or_default<'de, D, T>(input: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(input)?.unwrap_or_default())
}

/// Parses a timeout. A negative timeout is read as zero; both expire before the call.
fn timeout<'de, D: Deserializer<'de>>(input: D) -> Result<Option<Duration>, D::Error> {
    let Some(text) = Option::<String>::deserialize(input)? else {
        return Ok(None);
    };
    match go_duration::parse(&text) {
        Ok(duration) => Ok(Some(duration)),
        Err(DurationError::Negative) => Ok(Some(Duration::ZERO)),
        Err(error) => Err(de::Error::custom(format!("the timeout {text:?}: {error}"))),
    }
}

// Converts a Plugin to its hooks, in the order of their calls. KubeVirt v1.9 lists them in `spec.domainHooks`, v1.10
// in `spec.launcherHooks`. A hook with an unknown member or hook point, or without one that is called, is kept and
// refused with an error that names the member: it is never skipped silently. Of a hook that is called, the hook points
// that are not called yet are kept for its record and events.

/// The hook point of `launcherHooks` for changing the domain.
const GUEST_DEFINITION: &str = "GuestDefinition";
/// Hook points that v1.10 names but whose calls it does not define yet.
const UNDEFINED_POINTS: [&str; 2] = ["PreBoot", "PreMigrationSource"];
/// Maximum length of an unknown hook point in an error, in bytes.
const MAX_POINT_BYTES: usize = 128;
/// The remedy in errors about members and hook points that this launcher does not know.
const REMEDY: &str =
    "take a launcher that knows it, or set failureStrategy: Ignore to start without the hook";

/// The hooks of a plugin.
pub(super) fn hooks(plugin: Plugin) -> Vec<PluginHook> {
    let Plugin { metadata, spec } = plugin;
    let plugin_condition = Condition::new("spec.condition".to_owned(), &spec.condition);
    let whole_plugin = |reason: String| PluginHook {
        plugin: metadata.name.clone(),
        list: HookList::LauncherHooks,
        index: None,
        ignore: spec.failure_strategy == IGNORE,
        timeout: DEFAULT_TIMEOUT,
        conditions: plugin_condition.clone().into_iter().collect(),
        action: Action::Refused(reason),
    };
    if !spec.domain_hooks.is_empty() && !spec.launcher_hooks.is_empty() {
        let reason = format!(
            "plugin {} has both spec.domainHooks (KubeVirt v1.9) and spec.launcherHooks (v1.10): write all hooks \
             into one of them",
            metadata.name
        );
        return vec![whole_plugin(reason)];
    }
    let mut hooks = Vec::new();
    if let Some(member) = spec.unknown.first() {
        let plugin = &metadata.name;
        let reason = format!("spec.{member} of plugin {plugin} is not known here; {REMEDY}");
        hooks.push(whole_plugin(reason));
    }
    let lists = [
        (HookList::DomainHooks, &spec.domain_hooks),
        (HookList::LauncherHooks, &spec.launcher_hooks),
    ];
    for (list, members) in lists {
        for (index, hook) in members.iter().enumerate() {
            let Some(hook) = hook else { continue };
            let place = format!("spec.{}[{index}]", list.name());
            let Some(action) = action(hook, list, &place, &metadata.name) else {
                continue;
            };
            let hook_condition = Condition::new(format!("{place}.condition"), &hook.condition);
            let strategies = [&hook.failure_strategy, &spec.failure_strategy];
            let strategy = strategies.into_iter().find(|strategy| !strategy.is_empty());
            hooks.push(PluginHook {
                plugin: metadata.name.clone(),
                list,
                index: Some(index),
                ignore: strategy.is_some_and(|strategy| strategy == IGNORE),
                timeout: hook.timeout.unwrap_or(DEFAULT_TIMEOUT).min(MAX_TIMEOUT),
                conditions: plugin_condition
                    .clone()
                    .into_iter()
                    .chain(hook_condition)
                    .collect(),
                action,
            });
        }
    }
    hooks
}

/// The action of a hook; `None` for a hook of v1.9 without an action, which KubeVirt skips.
fn action(hook: &Hook, list: HookList, place: &str, plugin: &str) -> Option<Action> {
    if let Some(member) = unknown_member(hook, list) {
        let reason = format!("{place}.{member} of plugin {plugin} is not known here; {REMEDY}");
        return Some(Action::Refused(reason));
    }
    match list {
        HookList::DomainHooks => domain_action(hook),
        HookList::LauncherHooks => Some(match launcher_action(hook) {
            Ok(action) => action,
            Err(reason) => Action::Refused(format!("{place} of plugin {plugin} {reason}")),
        }),
    }
}

/// The action by the rules of v1.9: of a hook with both members, the CEL expression is evaluated; a hook with neither
/// is skipped.
fn domain_action(hook: &Hook) -> Option<Action> {
    match (&hook.cel, &hook.sidecar) {
        (Some(_), _) => Some(Action::Cel),
        (None, Some(sidecar)) => Some(Action::Sidecar {
            socket_path: sidecar.socket_path.clone(),
            uncalled_points: Vec::new(),
        }),
        (None, None) => None,
    }
}

/// Why a launcher hook of v1.10 is not called. Each message continues a sentence whose subject is the hook.
#[derive(Debug, thiserror::Error)]
enum InvalidLauncherHook {
    #[error("has both cel and sidecar: give one of them")]
    BothActions,
    #[error("has neither cel nor sidecar: give one of them")]
    NoAction,
    #[error("has no sidecar.permittedHooks: write [GuestDefinition]")]
    NoPermittedHooks,
    #[error("has the unknown hook point \"{point}\" in {member}; {}", REMEDY)]
    UnknownPoint { point: String, member: &'static str },
    #[error(
        "is to be called at {} only ({member}), which this launcher does not do yet; {}",
        points.join(" and "),
        REMEDY
    )]
    OnlyUncalledPoints {
        points: Vec<&'static str>,
        member: &'static str,
    },
}

/// The action by the rules of v1.10: a hook must have exactly one of both members.
fn launcher_action(hook: &Hook) -> Result<Action, InvalidLauncherHook> {
    match (&hook.cel, &hook.sidecar) {
        (Some(_), Some(_)) => Err(InvalidLauncherHook::BothActions),
        (None, None) => Err(InvalidLauncherHook::NoAction),
        (Some(Cel { hook_point, .. }), None) => {
            let point = hook_point.as_deref().unwrap_or_default();
            uncalled_points("cel.hookPoint", &[point]).map(|_| Action::Cel)
        }
        (None, Some(sidecar)) => {
            let points = sidecar.permitted_hooks.as_deref().unwrap_or_default();
            let points: Vec<&str> = points.iter().map(String::as_str).collect();
            if points.is_empty() {
                return Err(InvalidLauncherHook::NoPermittedHooks);
            }
            Ok(Action::Sidecar {
                socket_path: sidecar.socket_path.clone(),
                uncalled_points: uncalled_points("sidecar.permittedHooks", &points)?,
            })
        }
    }
}

/// The known hook points of a hook at which this launcher does not call plugins yet.
///
/// # Errors
/// One of the points is unknown, or none is called.
fn uncalled_points(
    member: &'static str,
    points: &[&str],
) -> Result<Vec<&'static str>, InvalidLauncherHook> {
    let is_known = |point: &&&str| **point == GUEST_DEFINITION || UNDEFINED_POINTS.contains(point);
    if let Some(point) = points.iter().find(|point| !is_known(point)) {
        let point = printable(point, MAX_POINT_BYTES);
        return Err(InvalidLauncherHook::UnknownPoint { point, member });
    }
    let uncalled = UNDEFINED_POINTS.into_iter();
    let uncalled: Vec<_> = uncalled.filter(|point| points.contains(point)).collect();
    match points.contains(&GUEST_DEFINITION) {
        true => Ok(uncalled),
        false => Err(InvalidLauncherHook::OnlyUncalledPoints {
            points: uncalled,
            member,
        }),
    }
}

/// The path of the first member that hooks of this list do not have.
fn unknown_member(hook: &Hook, list: HookList) -> Option<String> {
    let is_v1_9 = list == HookList::DomainHooks;
    if let Some(member) = hook.unknown.first() {
        return Some(member.to_owned());
    }
    if let Some(Cel {
        hook_point,
        unknown,
        ..
    }) = &hook.cel
    {
        if let Some(member) = unknown.first() {
            return Some(format!("cel.{member}"));
        }
        if is_v1_9 && hook_point.is_some() {
            return Some("cel.hookPoint".to_owned());
        }
    }
    let Sidecar {
        permitted_hooks,
        unknown,
        ..
    } = hook.sidecar.as_ref()?;
    match unknown.first() {
        Some(member) => Some(format!("sidecar.{member}")),
        None if is_v1_9 && permitted_hooks.is_some() => Some("sidecar.permittedHooks".to_owned()),
        None => None,
    }
}

/// The number of hooks of a plugin in both lists.
pub(super) fn hook_count(plugin: &Plugin) -> usize {
    plugin.spec.domain_hooks.len() + plugin.spec.launcher_hooks.len()
}
