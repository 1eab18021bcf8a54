//! What one hook may change of the domain.

use domain_xml::grant::{Checker, Permission, Reason, Refusal};
use domain_xml::{Change, ChangeKind, Document, PathPattern};

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
        before: told(change, change.before.as_deref()),
        after: told(change, change.after.as_deref()),
        remedy,
    }
}

/// Of a change of order it is the parent that is refused, and a number that tells the place.
fn told(change: &Change, value: Option<&str>) -> Option<String> {
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
    fn a_change_of_order_says_what_changed_places() {
        let read = |xml| Document::parse(xml).unwrap();
        let before = read("<domain><os><boot dev='hd'/><bios/></os></domain>");
        let after = read("<domain><os><bios/><boot dev='hd'/></os></domain>");
        let changes = domain_xml::diff(&before, &after);
        let grant = Grant(Some(vec![Layer {
            patterns: Vec::new(),
            origin: "wishes".to_owned(),
        }]));
        let refused = grant.check(&changes, &before, &after).unwrap_err();
        assert_eq!(refused.path, "/domain/os");
        let (was, is) = (refused.before.unwrap(), refused.after.unwrap());
        assert!(
            was.starts_with("/domain/os/") && was.contains(" as child "),
            "{was}"
        );
        assert_ne!(was, is);
    }
}
