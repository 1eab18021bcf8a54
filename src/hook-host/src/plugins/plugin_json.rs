//! The JSON of KubeVirt's `Plugin` as virt-handler sends it, reduced to the domain hooks. As in Go, members
//! that nobody knows are ignored, and `null` is what an absent member is.

use std::time::Duration;

use serde::{Deserialize, Deserializer, de};

use quantity::go_duration::{self, DurationError};

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
    #[serde(deserialize_with = "or_default")]
    pub(super) domain_hooks: Vec<Option<DomainHook>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct DomainHook {
    pub(super) cel: Option<Cel>,
    pub(super) sidecar: Option<Sidecar>,
    #[serde(deserialize_with = "or_default")]
    pub(super) condition: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) failure_strategy: String,
    #[serde(deserialize_with = "timeout")]
    pub(super) timeout: Option<Duration>,
}

/// A CEL mutation. The expression is not read because it is not evaluated here.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Cel {}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Sidecar {
    #[serde(deserialize_with = "or_default")]
    pub(super) socket_path: String,
}

impl Plugin {
    /// Size of all conditions in bytes.
    pub(super) fn conditions(&self) -> usize {
        let hooks = self.spec.domain_hooks.iter().flatten();
        self.spec.condition.len() + hooks.map(|hook| hook.condition.len()).sum::<usize>()
    }
}

fn or_default<'de, D, T>(input: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(input)?.unwrap_or_default())
}

/// A negative timeout expires before the call, as zero does.
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
