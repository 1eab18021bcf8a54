//! What a hook may change of the domain.

use std::rc::Rc;
use std::sync::Arc;

use domain_xml::{Budget, Change, ChangeKind, Document, PathPattern};

use super::permission::{Checker, DangerKind, Permission, Refusal, RefusalReason};

/// The effective grant of a hook: every layer must permit a change. `None` permits everything.
#[derive(Debug, Clone, Default)]
pub(crate) struct Grant(Option<Arc<[Layer]>>);

/// The patterns of one origin, and which line grants them.
#[derive(Debug, Clone)]
pub(crate) struct Layer {
    pub(crate) patterns: Vec<PathPattern>,
    /// Classes of the dangerous set that the origin grants.
    pub(crate) kinds: Vec<DangerKind>,
    /// `allow.paths of hook/hook.yaml:7:10`.
    pub(crate) origin: String,
}

/// Why changes are not accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NotGranted {
    /// A change that no layer permits.
    Refused(GrantRefusal),
    /// The budget was used up.
    CheckBudgetExhausted,
}

/// A change that is not granted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GrantRefusal {
    pub(crate) path: String,
    pub(crate) before: Option<String>,
    pub(crate) after: Option<String>,
    /// The line that would allow the change.
    pub(crate) remedy: String,
}

impl Layer {
    pub(crate) fn and(mut self, other: &Self) -> Self {
        self.patterns.extend(other.patterns.iter().cloned());
        self.kinds.extend(&other.kinds);
        self
    }
}

impl Grant {
    /// For gRPC sidecars, which cannot be restricted.
    pub(crate) fn unlimited() -> Self {
        Self(None)
    }

    pub(crate) fn new(layers: Vec<Layer>) -> Self {
        Self(Some(layers.into()))
    }

    /// The grant for one device that is attached. It is the only one of its document, so a position among the devices says
    /// nothing about it: such patterns are left out.
    pub(crate) fn for_attached_device(&self) -> Self {
        /// `/domain/devices/*`
        const DEVICE: usize = 2;
        let of_domain = |layer: &Layer| Layer {
            patterns: (layer.patterns.iter())
                .filter(|pattern| !pattern.has_position_at(DEVICE))
                .cloned()
                .collect(),
            ..layer.clone()
        };
        Self(
            self.layers()
                .map(|layers| layers.iter().map(of_domain).collect()),
        )
    }

    /// All layers, or `None` if everything is permitted.
    pub(crate) fn layers(&self) -> Option<&[Layer]> {
        self.0.as_deref()
    }

    /// Checks all changes. The error is the first one that is not granted.
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
        for layer in self.layers().into_iter().flatten() {
            let budget = Rc::clone(budget);
            let checker = Checker::within(&layer.patterns, before, after, budget);
            let mut checker = checker.granting(&layer.kinds);
            for change in changes {
                if let Permission::Refused(refusal) = checker.permits(change) {
                    return Err(match refusal.reason {
                        RefusalReason::CheckBudgetExhausted => NotGranted::CheckBudgetExhausted,
                        _ => NotGranted::Refused(refused(change, refusal, &layer.origin)),
                    });
                }
            }
        }
        Ok(())
    }
}

fn refused(change: &Change, refusal: Refusal, origin: &str) -> GrantRefusal {
    let remedy = match (&refusal.reason, refusal.suggested_pattern) {
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
        (_, Some(suggested_pattern)) => {
            format!("{origin} would have to contain \"{suggested_pattern}\"")
        }
        (_, None) => format!("{origin} does not allow it"),
    };
    GrantRefusal {
        path: refusal.path,
        before: described(change, change.before.as_deref()),
        after: described(change, change.after.as_deref()),
        remedy,
    }
}

/// A value for messages. A move is refused at the parent and has a position as value.
fn described(change: &Change, value: Option<&str>) -> Option<String> {
    let value = value?;
    Some(match change.kind {
        ChangeKind::Moved => format!("{} as child {value}", change.path),
        _ => value.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_refused_move_names_the_child_and_its_positions() {
        let read = |xml| Document::parse(xml).unwrap();
        let before = read("<domain><os><boot dev='hd'/><boot dev='fd'/></os></domain>");
        let after = read("<domain><os><boot dev='fd'/><boot dev='hd'/></os></domain>");
        let changes = domain_xml::diff(&before, &after);
        let grant = Grant::new(vec![Layer {
            patterns: Vec::new(),
            kinds: Vec::new(),
            origin: "wishes".to_owned(),
        }]);
        let budget = Rc::new(Budget::unlimited());
        let checked = grant.check(&changes, &before, &after, &budget);
        let Err(NotGranted::Refused(refused)) = checked else {
            panic!("{checked:?}");
        };
        assert_eq!(refused.path, "/domain/os");
        let (was, is) = (refused.before.unwrap(), refused.after.unwrap());
        assert!(
            was.starts_with("/domain/os/") && was.contains(" as child "),
            "{was}"
        );
        assert_ne!(was, is);
    }
}
