//! The grant of a hook: which changes of the domain are permitted.

#[cfg(test)]
mod refusal_text_tests;

use std::rc::Rc;
use std::sync::Arc;

use domain_xml::Document;
use domain_xml::host::{Budget, Change, ChangeKind, has_position_at};

use super::dangerous_patterns::names_dangerous;
use super::permission::{Checker, DangerKind, Permission, Refusal, RefusalReason};
use super::unknown_domain_path::UnknownPath;
use crate::ConditionedPath;

/// The grant of a hook: a change is permitted if every layer permits it. `None` permits everything.
#[derive(Debug, Clone, Default)]
pub(crate) struct Grant(Option<Arc<[Layer]>>);

/// The paths and kinds of one origin.
#[derive(Debug, Clone)]
pub(crate) struct Layer {
    pub(crate) paths: Vec<ConditionedPath>,
    /// Kinds of the dangerous set that the origin grants.
    pub(crate) granted_dangers: Vec<DangerKind>,
    /// The origin for errors, such as `allow.paths of hook/hook.yaml:7:10`.
    pub(crate) origin: String,
    /// The origin of paths of the dangerous set, if it is another one.
    pub(crate) dangerous_origin: Option<String>,
}

/// Why changes are not granted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NotGranted {
    /// A layer does not permit a change.
    Refused(GrantRefusal),
    /// The budget was exhausted before all changes were checked.
    CheckBudgetExhausted,
}

/// A change that is not granted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GrantRefusal {
    pub(crate) path: String,
    pub(crate) before: Option<String>,
    pub(crate) after: Option<String>,
    /// Why the change is refused, and the line that would allow it, if there is one.
    pub(crate) remedy: String,
}

impl Layer {
    pub(crate) fn new(paths: Vec<ConditionedPath>, origin: impl Into<String>) -> Self {
        Self {
            paths,
            granted_dangers: Vec::new(),
            origin: origin.into(),
            dangerous_origin: None,
        }
    }

    /// The layer, which also grants these kinds as a whole.
    pub(crate) fn with_kinds(self, granted_dangers: Vec<DangerKind>) -> Self {
        Self {
            granted_dangers,
            ..self
        }
    }

    /// The layer, with another origin for paths of the dangerous set.
    pub(crate) fn with_dangerous_origin(self, origin: impl Into<String>) -> Self {
        Self {
            dangerous_origin: Some(origin.into()),
            ..self
        }
    }

    /// The layer, which also permits what `other`, the grants of the dangerous set, permits.
    pub(crate) fn or(mut self, other: &Self) -> Self {
        self.paths.extend(other.paths.iter().cloned());
        self.granted_dangers.extend(&other.granted_dangers);
        self.with_dangerous_origin(other.origin.clone())
    }

    /// The origin of one of the paths.
    fn origin_of(&self, path: Option<&ConditionedPath>) -> &str {
        let names_dangerous = path.is_some_and(|path| names_dangerous(&path.pattern));
        let dangerous_origin = self.dangerous_origin.as_ref();
        dangerous_origin
            .filter(|_| names_dangerous)
            .unwrap_or(&self.origin)
    }
}

impl Grant {
    /// The grant of gRPC sidecars, which cannot be restricted.
    pub(crate) fn unlimited() -> Self {
        Self(None)
    }

    pub(crate) fn new(layers: Vec<Layer>) -> Self {
        Self(Some(layers.into()))
    }

    /// The grant for one device that is attached. Its document contains no other devices, so patterns with a position
    /// among the devices would match a wrong device and are left out.
    pub(crate) fn for_attached_device(&self) -> Self {
        /// The index of the last step of `/domain/devices/*`.
        const DEVICE_STEP: usize = 2;
        let without_positions = |layer: &Layer| Layer {
            paths: (layer.paths.iter())
                .filter(|path| !has_position_at(&path.pattern, DEVICE_STEP))
                .cloned()
                .collect(),
            ..layer.clone()
        };
        Self(
            self.layers()
                .map(|layers| layers.iter().map(without_positions).collect()),
        )
    }

    /// All layers, or `None` if everything is permitted.
    pub(crate) fn layers(&self) -> Option<&[Layer]> {
        self.0.as_deref()
    }

    /// Checks all changes. The error is about the first change that is not granted.
    pub(crate) fn check<'a>(
        &'a self,
        changes: &[Change],
        before: &'a Document,
        after: &'a Document,
        budget: &Rc<Budget<'a>>,
    ) -> Result<(), NotGranted> {
        if changes.is_empty() {
            return Ok(());
        }
        let checker = |layer: &'a Layer| {
            let checker = Checker::within(&layer.paths, before, after, Rc::clone(budget));
            checker.granting(&layer.granted_dangers)
        };
        let mut outer_to_inner = self.layers().unwrap_or_default().iter();
        while let Some(layer) = outer_to_inner.next() {
            let mut layer_checker = checker(layer);
            for change in changes {
                let Permission::Refused(refusal) = layer_checker.permits(change) else {
                    continue;
                };
                if refusal.reason == RefusalReason::CheckBudgetExhausted {
                    return Err(NotGranted::CheckBudgetExhausted);
                }
                // Layers go from outer (operator) to inner (wishes). The innermost layer that refuses is reported,
                // since its author must act first; this outer one is mentioned after it.
                let inner_layers = outer_to_inner;
                let innermost = inner_layers.rev().find_map(|inner| {
                    let permission = checker(inner).permits(change);
                    refusal_within_budget(permission).map(|refusal| (refusal, inner))
                });
                return Err(NotGranted::Refused(match innermost {
                    None => grant_refusal(change, refusal, layer, None),
                    Some((inner_refusal, inner)) => {
                        grant_refusal(change, inner_refusal, inner, Some((&refusal, layer)))
                    }
                }));
            }
        }
        Ok(())
    }
}

/// The refusal, unless its reason is the budget.
fn refusal_within_budget(permission: Permission) -> Option<Refusal> {
    match permission {
        Permission::Refused(refusal) => {
            (refusal.reason != RefusalReason::CheckBudgetExhausted).then_some(refusal)
        }
        Permission::Granted { .. } => None,
    }
}

/// The refusal of a change by a layer. `outer` is an outer layer that refuses the change too.
fn grant_refusal(
    change: &Change,
    refusal: Refusal,
    layer: &Layer,
    outer: Option<(&Refusal, &Layer)>,
) -> GrantRefusal {
    let origin = &layer.origin;
    let cannot_be_granted = matches!(
        refusal.reason,
        RefusalReason::Reserved(_) | RefusalReason::DocumentReplaced
    );
    let mut remedy = match (&refusal.reason, refusal.suggested_pattern) {
        (RefusalReason::Reserved(_), _) => "it is not a hook's to change".to_owned(),
        (RefusalReason::DocumentReplaced, _) => "the domain became another document".to_owned(),
        (RefusalReason::Ambiguous { .. }, Some(suggested_pattern)) => format!(
            "it shares its identity with a sibling, which predicates do not tell apart; {origin} \
             would have to contain \"{suggested_pattern}\""
        ),
        (RefusalReason::Dangerous(kind), Some(suggested_pattern)) => format!(
            "it is of the dangerous set ({kind:?}), which no wildcard matches; {origin} would have \
             to contain \"{suggested_pattern}\""
        ),
        (RefusalReason::ConditionNotMet { pattern, reason }, _) => {
            let path = layer.paths.get(*pattern);
            let origin = layer.origin_of(path);
            let path = path.map_or_else(String::new, ToString::to_string);
            format!(
                "{reason}; let the hook write a value that meets the condition, or {origin} would have to widen `{path}`"
            )
        }
        (_, Some(suggested_pattern)) => {
            format!("{origin} would have to contain \"{suggested_pattern}\"")
        }
        (_, None) => format!("{origin} does not allow it"),
    };
    if !cannot_be_granted {
        match outer {
            None => {}
            Some((refusal, _)) if matches!(refusal.reason, RefusalReason::Dangerous(_)) => {
                remedy += "; and so would allow.dangerous of the operator's policy";
            }
            Some((
                Refusal {
                    reason: RefusalReason::ConditionNotMet { pattern, .. },
                    ..
                },
                outer,
            )) => {
                let origin = outer.origin_of(outer.paths.get(*pattern));
                remedy += &format!("; and so would {origin}");
            }
            Some((_, outer)) => remedy += &format!("; and so would {}", outer.origin),
        }
        if let Some(unknown) = UnknownPath::of(&refusal.path) {
            remedy = format!("{unknown} {remedy}");
        }
    }
    GrantRefusal {
        path: refusal.path,
        before: described(change, change.before.as_deref()),
        after: described(change, change.after.as_deref()),
        remedy,
    }
}

/// A value for messages. A move is refused at the parent, and its value is a position.
fn described(change: &Change, value: Option<&str>) -> Option<String> {
    let value = value?;
    Some(match change.kind {
        ChangeKind::Moved => format!("{} as child {value}", change.path),
        _ => value.to_owned(),
    })
}
