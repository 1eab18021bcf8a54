//! Checks that every hook's domain must pass, whatever its grants.

use std::rc::Rc;

use domain_xml::{Budget, Change, ChangeKind, Document, Element, Limits, diff_within};

use crate::policy::permission::{first_twin, local};
use crate::policy::{Grant, GrantRefusal, NotGranted, migration_abi};

/// Elements of a domain. KubeVirt's largest have some thousands.
const MAX_ELEMENTS: usize = 50_000;

/// Why a hook's domain is not accepted.
#[derive(Debug)]
pub(super) enum Rejection {
    /// It is no domain of this machine.
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
        let limits = Limits {
            elements: MAX_ELEMENTS,
            ..Limits::default()
        };
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
        budget.spend(xml.len() as u64 / 16);
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
            budget.spend(text as u64 / 16);
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

    fn kubevirt(&self) -> Vec<&Element> {
        let metadata = self.root().children_named("metadata");
        metadata
            .flat_map(Element::children)
            .filter(|child| local(child.name()) == "kubevirt")
            .collect()
    }

    fn same_metadata(&self, after: &Self, budget: &Budget<'_>) -> Result<(), String> {
        let (before, after) = (self.kubevirt(), after.kubevirt());
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const DOMAIN: &str = "<domain type='kvm'><name>ns_vm</name><uuid>u</uuid><metadata>\
        <kubevirt xmlns='http://kubevirt.io'><uid>7</uid></kubevirt></metadata>\
        <memory unit='b'>1</memory></domain>";

    fn refusal(from: &str, to: &str) -> String {
        let xml = DOMAIN.replace(from, to);
        assert_ne!(xml, DOMAIN);
        step(&Domain::parse(DOMAIN).unwrap(), &xml).err().unwrap()
    }

    fn step(domain: &Domain, xml: &str) -> Result<(Domain, Vec<Change>), String> {
        let budget = Budget::unlimited();
        let after = domain.step(xml, &budget)?;
        let changes = domain.changes(&after, &budget);
        Ok((after, changes))
    }

    #[test]
    fn the_budget_covers_the_text_of_changes() {
        let domain = |value: &str| {
            let disk = |n| format!("<disk><alias name='{n}'/><x a='{value}'/></disk>");
            let disks: String = (0..500).map(disk).collect();
            DOMAIN.replace("</domain>", &(disks + "</domain>"))
        };
        let before = Domain::parse(&domain("1")).unwrap();
        let is_enough = |steps: u64, xml: &str| {
            let budget = Budget::of_steps(steps);
            let _ = before
                .step(xml, &budget)
                .map(|after| before.changes(&after, &budget));
            budget.exhausted().is_none()
        };
        let steps = |xml: &str| {
            let (mut low, mut high) = (0, 1 << 20);
            while low < high {
                let middle = (low + high) / 2;
                match is_enough(middle, xml) {
                    true => high = middle,
                    false => low = middle + 1,
                }
            }
            low
        };
        let (short, long) = (domain("2"), domain(&"2".repeat(257)));
        let text = (long.len() - short.len()) as u64;
        // Once in the document, and once in its changes.
        assert_eq!(steps(&long) - steps(&short), 2 * text / 16);
    }

    #[test]
    fn invalid_domains_and_changed_identities_are_refused() {
        assert!(refusal("ns_vm", "other").contains("/domain/name was \"ns_vm\" and is \"other\""));
        assert!(refusal("<uuid>u</uuid>", "").contains("/domain/uuid"));
        assert!(refusal("<uuid>u", "<name>ns_vm</name><uuid>u").contains("/domain/name"));
        assert!(refusal("<uid>7", "<uid>8").contains("KubeVirt's metadata"));
        assert!(
            refusal(" xmlns='http://kubevirt.io'><uid>7</uid></kubevirt>", "/>")
                .contains("KubeVirt")
        );
        assert!(refusal("<metadata>", "<metadata><kubevirt/>").contains("there were 1"));
        assert!(refusal("</domain>", "").contains("malformed XML"));
        assert!(refusal(DOMAIN, " \n").contains("empty"));
        assert!(refusal(DOMAIN, "<network><name>ns_vm</name></network>").contains("<network>"));
    }

    #[test]
    fn a_second_element_of_those_that_libvirt_reads_once_is_refused() {
        let disk = |inside: &str| {
            let end = format!("<devices><disk>{inside}</disk></devices></domain>");
            DOMAIN.replace("</domain>", &end)
        };
        let verify = |before: &str, after: &str| {
            let before = Domain::parse(before).unwrap();
            let budget = Rc::new(Budget::unlimited());
            before
                .verify(after, &Grant::unlimited(), false, &budget)
                .map(|(_, changes)| changes.len())
        };
        let real = disk("<driver name='qemu' type='qcow2'/>");
        let hidden = disk("<driver name='qemu'/><driver name='qemu' type='qcow2'/>");
        let Err(Rejection::Invalid(error)) = verify(&real, &hidden) else {
            panic!("accepted");
        };
        assert!(
            error.contains("/domain/devices/disk has several <driver>"),
            "{error}"
        );
        for twin in [
            real.replace("<metadata>", "<metadata/><metadata>"),
            real.replace("<uuid>", "<os/><os/><uuid>"),
        ] {
            assert!(verify(&real, &twin).is_err(), "{twin}");
        }
        // Another disk is none of this one's business.
        let more = real.replace("</disk>", "</disk><disk><driver name='qemu'/></disk>");
        assert_eq!(verify(&real, &more).unwrap(), 1);
        // What was so before is not this hook's fault.
        assert_eq!(verify(&hidden, &hidden).unwrap(), 0);
        let titled = hidden.replace("<uuid>", "<title>x</title><uuid>");
        assert_eq!(verify(&hidden, &titled).unwrap(), 1);
    }

    #[test]
    fn the_number_of_elements_is_limited() {
        let with = |count: usize| refusal_of(&"<x/>".repeat(count));
        assert!(with(MAX_ELEMENTS - 7).is_none());
        assert!(with(MAX_ELEMENTS - 6).unwrap().contains("50000 elements"));
    }

    fn refusal_of(added: &str) -> Option<String> {
        let xml = DOMAIN.replace("</domain>", &format!("{added}</domain>"));
        step(&Domain::parse(DOMAIN).unwrap(), &xml).err()
    }

    #[test]
    fn other_changes_are_returned() {
        let before = Domain::parse(DOMAIN).unwrap();
        let (after, changes) = step(&before, &DOMAIN.replace("'>1<", "'>2<")).unwrap();
        assert_eq!(changes.len(), 1);
        assert!(changes[0].path.starts_with("/domain/memory"), "{changes:?}");
        let requoted = DOMAIN.replace("'>1<", "'>2<").replace('\'', "\"");
        let (_, changes) = step(&after, &requoted).unwrap();
        assert_eq!(changes, []);
        // A sidecar that reads and writes KubeVirt's own structs prefixes the metadata.
        let prefixed = DOMAIN
            .replace("<kubevirt xmlns=", "<k:kubevirt xmlns:k=")
            .replace("<uid>7</uid></kubevirt>", "<k:uid>7</k:uid></k:kubevirt>");
        assert!(prefixed.contains("<k:uid>7"));
        let (_, changes) = step(&before, &prefixed).unwrap();
        assert_eq!(changes, []);
    }
}
