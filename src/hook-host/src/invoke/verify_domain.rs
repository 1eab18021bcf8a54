//! Checks that every hook's domain must pass, whatever its grants.

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;

use std::rc::Rc;

use domain_xml::{Budget, Change, ChangeKind, Document, Element, Limits, diff_within};

use crate::policy::permission::{first_twin, is_kubevirts, namespace_bytes};
use crate::policy::{Grant, GrantRefusal, NotGranted, migration_abi};

/// Elements of a domain. KubeVirt's largest have some thousands.
const MAX_ELEMENTS: usize = 50_000;

/// Why a hook's domain is not accepted.
#[derive(Debug)]
pub(super) enum Rejection {
    /// It is not a domain of this machine.
    Invalid(String),
    /// It has a change that is not granted.
    NotGranted(NotGranted),
}

/// The domain that is passed through the chain: well-formed, and always of the same machine.
pub(super) struct Domain {
    document: Document,
}

impl Domain {
    /// Parses the domain that the chain starts with.
    pub(super) fn parse(xml: &str) -> Result<Self, String> {
        let domain = Self::of(Self::document(xml)?);
        if domain.root().name() == "domain" {
            Ok(domain)
        } else {
            Err(format!(
                "the root element is <{}>, not <domain>",
                domain.root().name()
            ))
        }
    }

    /// The domain of a document, whose root is `<domain>`.
    pub(super) fn of(document: Document) -> Self {
        Self { document }
    }

    pub(super) fn as_document(&self) -> &Document {
        &self.document
    }

    /// Parses XML within the limits of a domain.
    pub(super) fn document(xml: &str) -> Result<Document, String> {
        let limits = Limits::default().with_elements(MAX_ELEMENTS);
        let document = Document::parse_with(xml, &limits);
        document.map_err(|error| format!("malformed XML: {error}"))
    }

    /// Parses a hook's domain, checks it against the grant and returns it with the changes. `arrives` by a migration.
    pub(super) fn verify(
        &self,
        xml: &str,
        grant: &Grant,
        arrives: bool,
        budget: &Rc<Budget<'static>>,
    ) -> Result<(Self, Vec<Change>), Rejection> {
        let after = self.step(xml, budget).map_err(Rejection::Invalid)?;
        let changes = self.verify_parsed(&after, grant, budget)?;
        if arrives {
            let (old, new) = (&self.document, &after.document);
            let accepted = migration_abi::accepted().check(&changes, old, new, budget);
            accepted.map_err(|refused| Rejection::NotGranted(with_remedy(refused)))?;
        }
        Ok((after, changes))
    }

    /// Checks a domain that is parsed already against the grant, and returns the changes.
    pub(super) fn verify_parsed(
        &self,
        after: &Self,
        grant: &Grant,
        budget: &Rc<Budget<'static>>,
    ) -> Result<Vec<Change>, Rejection> {
        let changes = self.changes(after, budget);
        self.refuse_twins(after, &changes, budget)
            .map_err(Rejection::Invalid)?;
        let checked = grant.check(&changes, &self.document, &after.document, budget);
        checked.map_err(Rejection::NotGranted)?;
        Ok(changes)
    }

    /// Parses a hook's domain, which must be of this machine. The error names what is invalid.
    fn step(&self, xml: &str, budget: &Budget<'_>) -> Result<Self, String> {
        // Parsing is linear in the text.
        budget.spend_text(xml.len());
        if xml.trim().is_empty() {
            return Err("an empty domain XML".to_owned());
        }
        let after = Self::parse(xml)?;
        for name in ["name", "uuid"] {
            self.same_text(&after, name)?;
        }
        self.same_metadata(&after, budget)?;
        Ok(after)
    }

    fn changes(&self, after: &Self, budget: &Budget<'_>) -> Vec<Change> {
        let changes = diff_within(&self.document, &after.document, budget);
        // Recording the changes and comparing them with those of other hooks is linear in the text of the changes.
        let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        for change in &changes {
            let text = change.path.len() + text(&change.before) + text(&change.after);
            budget.spend_text(text);
        }
        changes
    }

    /// Two of an element that libvirt reads once: one of them is hidden from libvirt, and maybe the one that the grants
    /// are about. A domain that had such elements before the hook is left to the check of the changes.
    fn refuse_twins(
        &self,
        after: &Self,
        changes: &[Change],
        budget: &Budget<'_>,
    ) -> Result<(), String> {
        if changes.is_empty() {
            return Ok(());
        }
        match first_twin(after.root(), budget) {
            Some((path, name)) if first_twin(self.root(), budget).is_none() => Err(format!(
                "{path} has several <{name}>, of which libvirt reads one: edit the one that is there"
            )),
            _ => Ok(()),
        }
    }

    pub(super) fn root(&self) -> &Element {
        self.document.root()
    }

    /// The texts of all children with a name: a second `<name>` would be a change too.
    fn texts(&self, name: &str) -> Vec<String> {
        self.root()
            .children_named(name)
            .map(|child| child.text().trim().to_owned())
            .collect()
    }

    fn same_text(&self, after: &Self, name: &str) -> Result<(), String> {
        let (before, after) = (self.texts(name), after.texts(name));
        if before == after {
            return Ok(());
        }
        let (before, after) = (before.join(", "), after.join(", "));
        Err(format!(
            "/domain/{name} was {before:?} and is {after:?}; it is not a hook's to change"
        ))
    }

    /// KubeVirt's metadata. libvirt reads no metadata that has a namespace.
    fn kubevirt(&self, budget: &Budget<'_>) -> Vec<&Element> {
        let root = self.root();
        let metadata = root.children_named("metadata");
        let own = metadata.filter(|metadata| {
            budget.spend_text(root.tag_bytes() + metadata.tag_bytes())
                && metadata.namespace().is_none()
        });
        let children =
            own.flat_map(|metadata| metadata.children().map(move |child| (metadata, child)));
        let kubevirts = children.filter(|(metadata, child)| {
            budget.spend_text(namespace_bytes(root, metadata, child)) && is_kubevirts(child)
        });
        kubevirts.map(|(_, child)| child).collect()
    }

    fn same_metadata(&self, after: &Self, budget: &Budget<'_>) -> Result<(), String> {
        let (before, after) = (self.kubevirt(budget), after.kubevirt(budget));
        let refused = |what: &str| {
            Err(format!(
                "KubeVirt's metadata: {what}; it is not a hook's to change"
            ))
        };
        if before.len() != after.len() {
            return refused(&format!(
                "there were {} of it and are {}",
                before.len(),
                after.len()
            ));
        }
        for (before, after) in before.into_iter().zip(after) {
            let changes = diff_within(
                &Document::new(before.clone()),
                &Document::new(after.clone()),
                budget,
            );
            // A change of order is no change of metadata.
            if let Some(change) = changes
                .iter()
                .find(|change| change.kind != ChangeKind::Moved)
            {
                return refused(&format!("{:?} {}", change.kind, change.path));
            }
        }
        Ok(())
    }
}

fn with_remedy(refused: NotGranted) -> NotGranted {
    match refused {
        NotGranted::Refused(refusal) => NotGranted::Refused(GrantRefusal {
            remedy: migration_abi::remedy(),
            ..refusal
        }),
        unchecked => unchecked,
    }
}
