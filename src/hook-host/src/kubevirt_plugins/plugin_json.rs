//! The JSON of KubeVirt's `Plugin` (v1.9 and v1.10) as virt-handler sends it, reduced to the hooks of the launcher. As
//! in Go, `null` means the same as an absent member. The names of unknown members are kept, so that a hook with one can
//! be refused.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer, de};

use quantity::go_duration::{self, DurationError};

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
