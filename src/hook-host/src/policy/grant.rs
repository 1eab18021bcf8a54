//! What one hook may change of the domain.

use domain_xml::grant::{Checker, Permission, Reason, Refusal};
use domain_xml::{Change, Document, PathPattern};

/// What a module asked for and was given: a change must be permitted by every layer. None: all.
#[derive(Debug, Clone, Default)]
pub(crate) struct Grant(Option<Vec<Layer>>);

/// Patterns of one origin, and which line to change for more.
#[derive(Debug, Clone)]
pub(crate) struct Layer {
    pub(crate) patterns: Vec<PathPattern>,
    /// `allow.paths of hook/hook.yaml:7:10`.
    pub(crate) origin: String,
}

/// A change that is not granted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) path: String,
    pub(crate) before: Option<String>,
    pub(crate) after: Option<String>,
    /// Which line would allow it.
    pub(crate) remedy: String,
}

impl Layer {
    pub(crate) fn and(mut self, other: &Self) -> Self {
        self.patterns.extend(other.patterns.iter().cloned());
        self
    }
}

impl Grant {
    /// For gRPC sidecars, which nothing could restrict.
    pub(crate) fn unlimited() -> Self {
        Self(None)
    }

    pub(crate) fn new(layers: Vec<Layer>) -> Self {
        Self(Some(layers))
    }

    /// All that must permit a change.
    pub(crate) fn layers(&self) -> Option<&[Layer]> {
        self.0.as_deref()
    }

    /// Whether all changes are granted; the first that is not, otherwise.
    pub(crate) fn check(
        &self,
        changes: &[Change],
        before: &Document,
        after: &Document,
    ) -> Result<(), Refused> {
        if changes.is_empty() {
            return Ok(());
        }
        for layer in self.0.iter().flatten() {
            let mut checker = Checker::new(&layer.patterns, before, after);
            for change in changes {
                if let Permission::Refused(refusal) = checker.permits(change) {
                    return Err(refused(change, refusal, &layer.origin));
                }
            }
        }
        Ok(())
    }
}

fn refused(change: &Change, refusal: Refusal, origin: &str) -> Refused {
    let remedy = match (&refusal.reason, refusal.hint) {
        (Reason::Reserved(_), _) => "it is not a hook's to change".to_owned(),
        (Reason::Document, _) => "the domain became another document".to_owned(),
        (Reason::Ambiguous { .. }, Some(hint)) => format!(
            "it shares its identity with a sibling, which predicates do not tell apart; {origin} \
             would have to contain \"{hint}\""
        ),
        (Reason::Dangerous(kind), Some(hint)) => format!(
            "it is of the dangerous set ({kind:?}), which no wildcard matches; {origin} would have \
             to contain \"{hint}\""
        ),
        (_, Some(hint)) => format!("{origin} would have to contain \"{hint}\""),
        (_, None) => format!("{origin} does not allow it"),
    };
    Refused {
        path: refusal.path,
        before: change.before.clone(),
        after: change.after.clone(),
        remedy,
    }
}
