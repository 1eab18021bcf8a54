//! Checks that every hook's domain must pass, whatever its grants.

use domain_xml::{Change, ChangeKind, Document, Element, diff};

/// The domain that is passed through the chain: well-formed, and always of the same machine.
pub(super) struct Domain {
    document: Document,
}

impl Domain {
    /// Parses the domain that the chain starts with.
    pub(super) fn parse(xml: &str) -> Result<Self, String> {
        let document = Document::parse(xml).map_err(|error| format!("malformed XML: {error}"))?;
        let domain = Self { document };
        if domain.root().name() == "domain" {
            Ok(domain)
        } else {
            Err(format!(
                "the root element is <{}>, not <domain>",
                domain.root().name()
            ))
        }
    }

    /// Parses a hook's domain and returns it with the changes. The error names what is invalid.
    pub(super) fn step(&self, xml: &str) -> Result<(Self, Vec<Change>), String> {
        if xml.trim().is_empty() {
            return Err("an empty domain XML".to_owned());
        }
        let after = Self::parse(xml)?;
        for name in ["name", "uuid"] {
            self.same_text(&after, name)?;
        }
        self.same_metadata(&after)?;
        let changes = diff(&self.document, &after.document);
        Ok((after, changes))
    }

    pub(super) fn document(&self) -> &Document {
        &self.document
    }

    fn root(&self) -> &Element {
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

    fn same_metadata(&self, after: &Self) -> Result<(), String> {
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
            let changes = diff(
                &Document::new(before.clone()),
                &Document::new(after.clone()),
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

fn local(name: &str) -> &str {
    name.rsplit(':').next().unwrap_or(name)
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
        Domain::parse(DOMAIN).unwrap().step(&xml).err().unwrap()
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
    fn other_changes_are_returned() {
        let before = Domain::parse(DOMAIN).unwrap();
        let (after, changes) = before.step(&DOMAIN.replace("'>1<", "'>2<")).unwrap();
        assert_eq!(changes.len(), 1);
        assert!(changes[0].path.starts_with("/domain/memory"), "{changes:?}");
        let (_, changes) = after
            .step(&DOMAIN.replace("'>1<", "'>2<").replace('\'', "\""))
            .unwrap();
        assert_eq!(changes, []);
        // A sidecar that reads and writes KubeVirt's own structs prefixes the metadata.
        let prefixed = DOMAIN
            .replace("<kubevirt xmlns=", "<k:kubevirt xmlns:k=")
            .replace("<uid>7</uid></kubevirt>", "<k:uid>7</k:uid></k:kubevirt>");
        let _ = before.step(&prefixed).map(|(_, changes)| changes);
    }
}
