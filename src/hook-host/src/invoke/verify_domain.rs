//! Verifies the domain XML that a hook returned: it must be the same virtual machine, and have only granted changes.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, RandomState};
use std::rc::Rc;

use domain_xml::host::{Budget, Change, ChangeKind, diff_within, tag_bytes};
use domain_xml::{Document, Element, Limits};

use super::number_limits::{Excess, excesses};
use crate::policy::permission::{duplicates, is_kubevirts, namespace_bytes};
use crate::policy::{Grant, GrantRefusal, NotGranted, migration_abi};
use crate::printable::{IS_UTF16, is_utf16_xml};

/// Maximum number of elements of a domain. KubeVirt's largest domains have some thousands.
const MAX_ELEMENTS: usize = 50_000;

/// Why the domain that a hook returned is not accepted.
#[derive(Debug)]
pub(super) enum Rejection {
    /// It is not a domain, or not of the same virtual machine.
    Invalid(String),
    /// The domain has a change that is not granted.
    NotGranted(NotGranted),
}

/// The parsed domain that is passed through the chain.
pub(super) struct Domain {
    document: Document,
}

impl Domain {
    /// Parses the domain that the chain starts with.
    pub(super) fn parse(xml: &str) -> Result<Self, String> {
        let domain = Self::from_document(Self::parse_document(xml)?);
        if domain.root().tag_name() == "domain" {
            Ok(domain)
        } else {
            Err(format!(
                "the root element is <{}>, not <domain>",
                domain.root().tag_name()
            ))
        }
    }

    /// The domain in a document. The caller has checked that the root is `<domain>`.
    pub(super) fn from_document(document: Document) -> Self {
        Self { document }
    }

    pub(super) fn as_document(&self) -> &Document {
        &self.document
    }

    /// Parses XML within the limits of a domain.
    pub(super) fn parse_document(xml: &str) -> Result<Document, String> {
        if is_utf16_xml(xml.as_bytes()) {
            return Err(IS_UTF16.to_owned());
        }
        let limits = Limits::default().with_elements(MAX_ELEMENTS);
        let document = Document::parse_with(xml, &limits);
        document.map_err(|error| format!("malformed XML: {error}"))
    }

    /// Parses a hook's domain, checks it against the grant and returns it with the changes. If the domain
    /// `arrives` by a migration, the changes must also be ones that libvirt and QEMU accept then.
    pub(super) fn verify(
        &self,
        xml: &str,
        grant: &Grant,
        arrives: bool,
        budget: &Rc<Budget<'static>>,
    ) -> Result<(Self, Vec<Change>), Rejection> {
        let after = self.parse_output(xml, budget).map_err(Rejection::Invalid)?;
        let changes = self.verify_parsed(&after, grant, budget)?;
        if arrives {
            let (old, new) = (&self.document, &after.document);
            let accepted =
                migration_abi::changes_accepted_on_arrival().check(&changes, old, new, budget);
            accepted.map_err(|refused| Rejection::NotGranted(with_remedy(refused)))?;
        }
        Ok((after, changes))
    }

    /// Checks a parsed domain against the grant and returns the changes.
    pub(super) fn verify_parsed(
        &self,
        after: &Self,
        grant: &Grant,
        budget: &Rc<Budget<'static>>,
    ) -> Result<Vec<Change>, Rejection> {
        let changes = self.changes(after, budget);
        self.refuse_repeated_elements(after, &changes, budget)
            .map_err(Rejection::Invalid)?;
        self.refuse_large_numbers(after, &changes, budget)
            .map_err(|excess| Rejection::Invalid(excess.to_string()))?;
        let checked = grant.check(&changes, &self.document, &after.document, budget);
        checked.map_err(Rejection::NotGranted)?;
        Ok(changes)
    }

    /// Parses a hook's domain, which must have the same name, uuid and KubeVirt metadata. The error names the invalid
    /// part.
    fn parse_output(&self, xml: &str, budget: &Budget<'_>) -> Result<Self, String> {
        // Parsing is linear in the text.
        budget.spend_text(xml.len());
        if xml.trim().is_empty() {
            return Err("an empty domain XML".to_owned());
        }
        let after = Self::parse(xml)?;
        for name in ["name", "uuid"] {
            self.check_same_text(&after, name)?;
        }
        self.check_same_metadata(&after, budget)?;
        Ok(after)
    }

    fn changes(&self, after: &Self, budget: &Budget<'_>) -> Vec<Change> {
        let changes = diff_within(&self.document, &after.document, budget);
        // Recording the changes and comparing them with those of other hooks is linear in the text of the changes.
        let length = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        for change in &changes {
            let bytes = change.path.len() + length(&change.before) + length(&change.after);
            budget.spend_text(bytes);
        }
        changes
    }

    /// Refuses a second element where libvirt reads only one: the other is hidden from libvirt, and may be the one that
    /// the grants were checked for. For elements that the domain had several times before the hook, only the check of the
    /// changes applies.
    fn refuse_repeated_elements(
        &self,
        after: &Self,
        changes: &[Change],
        budget: &Budget<'_>,
    ) -> Result<(), String> {
        if changes.is_empty() {
            return Ok(());
        }
        match self.first_new(after, |domain| duplicates(domain.root(), budget)) {
            Some(duplicate) => Err(format!(
                "{} has several <{}>, of which libvirt reads one: edit the one that is there",
                duplicate.parent, duplicate.name
            )),
            None => Ok(()),
        }
    }

    /// Refuses a number above its limit, unless the domain had it before the hook.
    fn refuse_large_numbers(
        &self,
        after: &Self,
        changes: &[Change],
        budget: &Budget<'_>,
    ) -> Result<(), Excess> {
        if changes.is_empty() {
            return Ok(());
        }
        match self.first_new(after, |domain| excesses(domain.root(), budget)) {
            Some(excess) => Err(excess),
            None => Ok(()),
        }
    }

    /// The first of what is found in the domain after that the domain before does not have as often.
    fn first_new<'a, T: Hash, F: Iterator<Item = T>>(
        &'a self,
        after: &'a Self,
        find: impl Fn(&'a Self) -> F,
    ) -> Option<T> {
        let mut found = find(after).peekable();
        found.peek()?;
        // What was found before is kept as hashes: hostile input could otherwise fill the memory.
        let hashes = RandomState::new();
        let mut known: HashMap<u64, usize> = HashMap::new();
        for old in find(self) {
            *known.entry(hashes.hash_one(&old)).or_default() += 1;
        }
        found.find(|new| match known.get_mut(&hashes.hash_one(new)) {
            Some(count) if *count > 0 => {
                *count -= 1;
                false
            }
            _ => true,
        })
    }

    pub(super) fn root(&self) -> &Element {
        self.document.root()
    }

    /// The texts of all children with this name, because a second `<name>` would be a change too.
    fn child_texts(&self, name: &str) -> Vec<String> {
        self.root()
            .children_named(name)
            .map(|child| child.text().trim().to_owned())
            .collect()
    }

    fn check_same_text(&self, after: &Self, name: &str) -> Result<(), String> {
        let (before, after) = (self.child_texts(name), after.child_texts(name));
        if before == after {
            return Ok(());
        }
        let (before, after) = (before.join(", "), after.join(", "));
        Err(format!(
            "/domain/{name} was {before:?} and is {after:?}; it is not a hook's to change"
        ))
    }

    /// The elements of KubeVirt's metadata. A `<metadata>` with a namespace is skipped, because libvirt does not read
    /// it. A spent budget leaves elements out; `work_within_budget` then discards the result.
    fn kubevirt_metadata(&self, budget: &Budget<'_>) -> Vec<&Element> {
        let root = self.root();
        let metadata = root.children_named("metadata");
        let without_namespace = metadata.filter(|metadata| {
            budget.spend_text(tag_bytes(root) + tag_bytes(metadata))
                && metadata.namespace().is_none()
        });
        let children = without_namespace
            .flat_map(|metadata| metadata.children().map(move |child| (metadata, child)));
        let kubevirts = children.filter(|(metadata, child)| {
            budget.spend_text(namespace_bytes(root, metadata, child)) && is_kubevirts(child)
        });
        kubevirts.map(|(_, child)| child).collect()
    }

    fn check_same_metadata(&self, after: &Self, budget: &Budget<'_>) -> Result<(), String> {
        let (before, after) = (
            self.kubevirt_metadata(budget),
            after.kubevirt_metadata(budget),
        );
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
            // A different order is accepted.
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

/// Replaces the remedy of a refusal by that for changes that libvirt refuses in an arriving domain.
fn with_remedy(refused: NotGranted) -> NotGranted {
    match refused {
        NotGranted::Refused(refusal) => NotGranted::Refused(GrantRefusal {
            remedy: migration_abi::remedy(),
            ..refusal
        }),
        exhausted @ NotGranted::CheckBudgetExhausted => exhausted,
    }
}
