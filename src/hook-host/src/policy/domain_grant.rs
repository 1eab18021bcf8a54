//! What a hook may change of the domain.

use std::rc::Rc;
use std::sync::Arc;

use domain_xml::{Budget, Change, ChangeKind, Document, PathPattern};

use super::known_paths::UnknownPath;
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
        let checker = |layer: &'a Layer| {
            let checker = Checker::within(&layer.patterns, before, after, Rc::clone(budget));
            checker.granting(&layer.kinds)
        };
        let mut layers = self.layers().unwrap_or_default().iter();
        while let Some(layer) = layers.next() {
            let mut own_checker = checker(layer);
            for change in changes {
                let Permission::Refused(refusal) = own_checker.permits(change) else {
                    continue;
                };
                if refusal.reason == RefusalReason::CheckBudgetExhausted {
                    return Err(NotGranted::CheckBudgetExhausted);
                }
                // Who declared too little is named before who granted too little: only then the other matters.
                let inner = layers.rev().find_map(|inner| {
                    let permission = checker(inner).permits(change);
                    refusal_of(permission).map(|refusal| (refusal, inner))
                });
                return Err(NotGranted::Refused(match inner {
                    None => refused(change, refusal, layer, None),
                    Some((own, inner)) => refused(change, own, inner, Some((&refusal, layer))),
                }));
            }
        }
        Ok(())
    }
}

/// A refusal for another reason than the budget.
fn refusal_of(permission: Permission) -> Option<Refusal> {
    match permission {
        Permission::Refused(refusal) => {
            (refusal.reason != RefusalReason::CheckBudgetExhausted).then_some(refusal)
        }
        Permission::Granted { .. } => None,
    }
}

/// `outer` refuses the change as well.
fn refused(
    change: &Change,
    refusal: Refusal,
    layer: &Layer,
    outer: Option<(&Refusal, &Layer)>,
) -> GrantRefusal {
    let origin = &layer.origin;
    let is_final = matches!(
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
        (_, Some(suggested_pattern)) => {
            format!("{origin} would have to contain \"{suggested_pattern}\"")
        }
        (_, None) => format!("{origin} does not allow it"),
    };
    if !is_final {
        match outer {
            None => {}
            Some((refusal, _)) if matches!(refusal.reason, RefusalReason::Dangerous(_)) => {
                remedy += "; and so would allow.dangerous of the operator's policy";
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

    fn layer(patterns: &[&str], origin: &str) -> Layer {
        let patterns = patterns
            .iter()
            .map(|text| PathPattern::parse(text).unwrap());
        Layer {
            patterns: patterns.collect(),
            kinds: Vec::new(),
            origin: origin.to_owned(),
        }
    }

    /// What is to be done about the changes from one domain to another.
    fn remedy(layers: Vec<Layer>, before: &str, after: &str) -> String {
        let read = |xml| Document::parse(xml).unwrap();
        let (before, after) = (read(before), read(after));
        let changes = domain_xml::diff(&before, &after);
        let grant = Grant::new(layers);
        let budget = Rc::new(Budget::unlimited());
        let checked = grant.check(&changes, &before, &after, &budget);
        let Err(NotGranted::Refused(refused)) = checked else {
            panic!("{checked:?}");
        };
        refused.remedy
    }

    #[test]
    fn what_declares_too_little_is_named_before_what_grants_too_little() {
        let layers = || {
            vec![
                layer(&["/domain/os/**"], "operator"),
                layer(&["/domain/**"], "dangerous"),
                layer(&["/domain/name"], "wishes"),
            ]
        };
        let (before, titled) = ("<domain/>", "<domain><title/></domain>");
        assert_eq!(
            remedy(layers(), before, titled),
            "wishes would have to contain \"/domain/title\"; and so would operator"
        );
        let command = "<domain><devices><emulator>/bin/sh</emulator></devices></domain>";
        let from = "<domain><devices/></domain>";
        let text = remedy(layers().split_off(1), from, command);
        assert!(
            text.contains("; wishes would have to contain \"/domain/devices/emulator\"")
                && text.ends_with("; and so would allow.dangerous of the operator's policy"),
            "{text}"
        );
        // Those that declare it are not named.
        let mut declared = layers();
        declared.truncate(2);
        declared.push(layer(&["/domain/title"], "wishes"));
        assert_eq!(
            remedy(declared, before, titled),
            "operator would have to contain \"/domain/title\""
        );
    }

    #[test]
    fn a_misspelt_element_of_the_hook_is_named() {
        let (from, to) = ("<domain/>", "<domain><tilte/></domain>");
        let text = remedy(vec![layer(&["/domain/title"], "wishes")], from, to);
        assert!(
            text.starts_with("libvirt's domain has no /domain/tilte (as of libvirt 12.8): is it /domain/title? wishes "),
            "{text}"
        );
    }

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
