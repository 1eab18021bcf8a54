//! The module's wishes, `hook.yaml` and the operator's policy brought together: a pure function.
//!
//! One file per concern, each with what all parties say about it: which module it is ([`digest`]),
//! when it is called and what its failure means ([`order`]), what it may use ([`limits`]), what it
//! is told and may read ([`reads`]), what it may change ([`paths`]).

mod digest;
mod limits;
mod order;
mod paths;
mod reads;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::grant::Grant;
use super::hook_yaml::{FailurePolicy, HookYaml};
use super::operator::{Allow, OperatorPolicy, Sidecars};
use super::read::{Place, PolicyError};
use super::values::At;
use crate::Limits;
use crate::wasm::{Description, Subscription};

/// Whose settings are to be found.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// The sha256 of the module in lower-case hexadecimal.
    pub digest: &'a str,
    /// The virtual machine's namespace, empty when it is not known.
    pub namespace: &'a str,
    /// What the module says of itself.
    pub description: &'a Description,
}

/// How a hook is run, and what it may do.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where it is called, and before whom.
    pub hook_points: Vec<Subscription>,
    /// What becomes of its failures.
    pub failure_policy: FailurePolicy,
    /// What it may use.
    pub limits: Limits,
    /// What it is told when it asks for its configuration.
    pub config: BTreeMap<String, String>,
    /// Directories that it may read.
    pub dirs: Vec<PathBuf>,
    pub(crate) grant: Grant,
}

/// Why a hook may not run as it would.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettleError {
    /// A line of `hook.yaml` does not fit the module or the operator's policy.
    #[error(transparent)]
    Line(#[from] PolicyError),
    /// It is another module than the one that was pinned.
    #[error("{place}: the module has the sha256 {found}, not {expected}")]
    Digest {
        /// The pin's file, line and column.
        place: String,
        /// The pin.
        expected: String,
        /// What the module has.
        found: String,
    },
    /// The operator wants the digest to be known.
    #[error("{place}: modules run only when {wanted}; this one has the sha256 {digest}")]
    UnknownDigest {
        /// The policy's file, line and column.
        place: String,
        /// Where the digest would have to stand.
        wanted: &'static str,
        /// What the module has.
        digest: String,
    },
    /// The operator forbids gRPC sidecars.
    #[error("{place}: gRPC sidecars are forbidden")]
    Sidecar {
        /// The policy's file, line and column.
        place: String,
    },
    /// The module wants more than it is granted.
    #[error("it wants the {what} {wish:?}, which {origin} does not allow: add it there")]
    NotGranted {
        /// `path`, `directory`, `configuration key` or `hook point`.
        what: &'static str,
        /// What it wants.
        wish: String,
        /// The list that would have to contain it.
        origin: String,
    },
}

/// What a hook gets of what it wants.
pub(crate) fn settle(
    subject: Subject<'_>,
    base: &Limits,
    yaml: Option<&HookYaml>,
    operator: Option<&OperatorPolicy>,
) -> Result<Settings, SettleError> {
    let terms = Terms {
        subject,
        yaml,
        operator,
        rules: operator.map_or_else(Vec::new, |policy| {
            policy.rules(subject.digest, subject.namespace)
        }),
        is_capped: true,
    };
    terms.digest()?;
    Ok(Settings {
        hook_points: terms.hook_points()?,
        failure_policy: terms.failure_policy()?,
        limits: terms.limits(base)?,
        config: terms.config()?,
        dirs: terms.dirs()?,
        grant: terms.grant()?,
    })
}

/// How a gRPC sidecar is run: unrestricted, if at all.
pub(crate) fn settle_sidecar(
    hook_points: Vec<Subscription>,
    base: &Limits,
    yaml: Option<&HookYaml>,
    operator: Option<&OperatorPolicy>,
) -> Result<Settings, SettleError> {
    if let Some(operator) = operator
        && let Some(sidecars) = &operator.content.sidecars
        && *sidecars.get() == Sidecars::Forbid
    {
        return Err(SettleError::Sidecar {
            place: operator.at(sidecars.place()),
        });
    }
    if let Some((yaml, (key, place))) = yaml.and_then(|yaml| Some((yaml, yaml.for_modules()?))) {
        let reason = format!("{key} is for modules: a gRPC sidecar cannot be restricted");
        return Err(yaml.wrong(place, reason).into());
    }
    let description = Description {
        hook_points,
        ..Description::default()
    };
    let terms = Terms {
        subject: Subject {
            digest: "",
            namespace: "",
            description: &description,
        },
        yaml,
        operator,
        rules: Vec::new(),
        is_capped: false,
    };
    Ok(Settings {
        hook_points: terms.hook_points()?,
        failure_policy: terms.failure_policy()?,
        limits: base.clone(),
        config: BTreeMap::new(),
        dirs: Vec::new(),
        grant: Grant::unlimited(),
    })
}

/// All that is said about one hook.
struct Terms<'a> {
    subject: Subject<'a>,
    yaml: Option<&'a HookYaml>,
    operator: Option<&'a OperatorPolicy>,
    /// Of the operator's policy, those that name it.
    rules: Vec<&'a Allow>,
    /// A gRPC sidecar is not: nothing could hold it to a list.
    is_capped: bool,
}

/// A list that holds what one may have.
struct Cap<'a, T> {
    values: Vec<&'a T>,
    /// Where it stands, for errors.
    origin: String,
}

impl<'a> Terms<'a> {
    /// The operator's list of a kind: what the rules that name the hook give, together; where none
    /// of them gives it, what `allow` at the top gives. `None` when the policy has no such list.
    fn operators<T>(
        &self,
        name: &str,
        list: impl Fn(&'a Allow) -> Option<&'a At<Vec<T>>>,
    ) -> Option<Cap<'a, T>> {
        let operator = self.operator.filter(|_| self.is_capped)?;
        let mut lists: Vec<_> = self.rules.iter().filter_map(|allow| list(allow)).collect();
        if lists.is_empty() {
            lists.extend(
                operator
                    .content
                    .allow
                    .as_ref()
                    .and_then(|top| list(top.get())),
            );
        }
        let places: Vec<String> = lists.iter().map(|list| operator.at(list.place())).collect();
        (!lists.is_empty()).then(|| Cap {
            values: lists.into_iter().flat_map(|list| list.get()).collect(),
            origin: format!("{name} of {}", places.join(" or ")),
        })
    }

    /// The same for what nobody has unless the operator says so.
    fn operators_word<T>(
        &self,
        name: &str,
        list: impl Fn(&'a Allow) -> Option<&'a At<Vec<T>>>,
    ) -> Cap<'a, T> {
        self.operators(name, list).unwrap_or_else(|| {
            let policy = self.operator.map(|operator| operator.path.display());
            let none =
                || "there is none: --hook-policy of a launcher or --policy of virt-hook names one";
            let place = policy.map_or_else(|| none().to_owned(), |path| path.to_string());
            Cap {
                values: Vec::new(),
                origin: format!("{name} of the operator's policy ({place})"),
            }
        })
    }

    fn hook_yaml(&self) -> String {
        self.yaml.map_or_else(
            || "a hook.yaml beside the module (there is none)".to_owned(),
            |yaml| yaml.path.display().to_string(),
        )
    }
}

impl<T> Cap<'_, T> {
    fn refuses(&self, what: &'static str, wish: &str) -> SettleError {
        SettleError::NotGranted {
            what,
            wish: wish.to_owned(),
            origin: self.origin.clone(),
        }
    }
}

fn at(yaml: &HookYaml, place: Place) -> String {
    format!("{}:{}:{}", yaml.path.display(), place.line, place.column)
}
