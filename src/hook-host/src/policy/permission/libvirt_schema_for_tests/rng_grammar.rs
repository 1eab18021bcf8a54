//! The RELAX NG grammar of libvirt's domains: its documents and named definitions.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use domain_xml::{Document, Element};

/// Where Debian and Fedora install libvirt's schemas.
const SCHEMAS_DIRECTORY: &str = "/usr/share/libvirt/schemas";

/// The schema of domains with all files that it includes.
pub(super) struct Grammar {
    documents: Vec<&'static Document>,
    /// The elements `define`, by name. A name can have several, which add to each other.
    pub(super) defines: HashMap<String, Vec<&'static Element>>,
}

impl Grammar {
    pub(super) fn load() -> Self {
        let mut grammar = Self {
            documents: Vec::new(),
            defines: HashMap::new(),
        };
        let directory = Path::new(SCHEMAS_DIRECTORY);
        grammar.load_file(directory, "domain.rng", &mut HashSet::new());
        grammar
    }

    /// The elements `start` of the schema of domains.
    pub(super) fn starts(&self) -> impl Iterator<Item = &'static Element> + use<> {
        self.documents[0].root().children_named("start")
    }

    fn load_file(&mut self, directory: &Path, file: &str, seen: &mut HashSet<String>) {
        if !seen.insert(file.to_owned()) {
            return;
        }
        let path = directory.join(file);
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| {
            panic!("{}: {error}; `make setup` installs libvirt", path.display())
        });
        // A test reads the schema once, so the memory may leak.
        let document: &'static Document = Box::leak(Box::new(Document::parse(&text).unwrap()));
        self.documents.push(document);
        self.collect(document.root(), directory, seen);
    }

    fn collect(&mut self, element: &'static Element, dir: &Path, seen: &mut HashSet<String>) {
        for child in element.children() {
            match child.tag_name() {
                "include" => {
                    self.load_file(dir, &child.attr("href").unwrap(), seen);
                    self.collect(child, dir, seen);
                }
                "define" => {
                    let name = child.attr("name").unwrap().into_owned();
                    self.defines.entry(name).or_default().push(child);
                }
                "div" => self.collect(child, dir, seen),
                _ => {}
            }
        }
    }
}

/// Whether an element of the grammar is a name class, and not content.
pub(super) fn is_name(element: &Element) -> bool {
    let named = |child: &Element| matches!(child.tag_name(), "name" | "anyName" | "nsName");
    named(element) || (element.tag_name() == "choice" && element.children().all(named))
}

/// The names of an element or attribute of the grammar; `*` for any.
pub(super) fn names(element: &Element) -> Vec<String> {
    if let Some(name) = element.attr("name") {
        return vec![name.into_owned()];
    }
    let first = element.children().next().unwrap();
    match first.tag_name() {
        "name" => vec![first.text().trim().to_owned()],
        "choice" => first
            .children()
            .map(|name| name.text().trim().to_owned())
            .collect(),
        _ => vec!["*".to_owned()],
    }
}
