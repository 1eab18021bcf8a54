//! libvirt's RELAX NG schema of domains: every element text and attribute that it knows.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::Path;

use domain_xml::{Document, Element};

/// Where Debian and Fedora install libvirt's schemas.
pub(crate) const SCHEMAS: &str = "/usr/share/libvirt/schemas";

/// A text or attribute: the elements from the root, and the attribute's name.
pub(crate) type Leaf = (Vec<String>, Option<String>);

/// What the schema says of a leaf's value.
#[derive(Default)]
pub(crate) struct Values {
    /// The definitions that its data is of, such as `absFilePath`; the empty name for text of no definition.
    pub(crate) types: BTreeSet<String>,
    /// The values of an enumeration.
    pub(crate) names: BTreeSet<String>,
}

/// The leaves of a domain, and how often elements may stand in their parents.
#[derive(Default)]
pub(crate) struct Schema {
    pub(crate) leaves: BTreeMap<Leaf, Values>,
    /// The most children of a name: by the path of the parent and the name. 2 is "several".
    pub(crate) counts: BTreeMap<(Vec<String>, String), usize>,
}

/// Prefixes of elements in namespaces of hypervisors.
const NAMESPACES: &[(&str, &str)] = &[
    ("http://libvirt.org/schemas/domain/qemu/1.0", "qemu:"),
    ("http://libvirt.org/schemas/domain/lxc/1.0", "lxc:"),
    ("http://libvirt.org/schemas/domain/xen/1.0", "xen:"),
    ("http://libvirt.org/schemas/domain/bhyve/1.0", "bhyve:"),
];

struct Grammar {
    documents: Vec<&'static Document>,
    defines: HashMap<String, Vec<&'static Element>>,
}

impl Grammar {
    fn load(&mut self, directory: &Path, file: &str, seen: &mut HashSet<String>) {
        if !seen.insert(file.to_owned()) {
            return;
        }
        let path = directory.join(file);
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| {
            panic!("{}: {error}; `make setup` installs libvirt", path.display())
        });
        // Leaked, since a test reads the schema once.
        let document: &'static Document = Box::leak(Box::new(Document::parse(&text).unwrap()));
        self.documents.push(document);
        self.collect(document.root(), directory, seen);
    }

    fn collect(&mut self, element: &'static Element, dir: &Path, seen: &mut HashSet<String>) {
        for child in element.children() {
            match child.name() {
                "include" => {
                    self.load(dir, &child.attr("href").unwrap(), seen);
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

/// Where a walk is.
#[derive(Clone, Default)]
struct Place<'a> {
    path: Vec<String>,
    attribute: Option<String>,
    /// The definitions that are being walked, innermost last.
    inside: Vec<&'a str>,
}

struct Walk<'g> {
    grammar: &'g Grammar,
    schema: Schema,
    seen: HashSet<(*const Element, Vec<String>)>,
}

pub(crate) fn read() -> Schema {
    let mut grammar = Grammar {
        documents: Vec::new(),
        defines: HashMap::new(),
    };
    grammar.load(Path::new(SCHEMAS), "domain.rng", &mut HashSet::new());
    let mut walk = Walk {
        grammar: &grammar,
        schema: Schema::default(),
        seen: HashSet::new(),
    };
    let starts = grammar.documents[0].root().children_named("start");
    for start in starts {
        walk.children(start, &Place::default());
    }
    walk.schema
}

impl<'g> Walk<'g> {
    fn children(&mut self, element: &'g Element, place: &Place<'g>) {
        for child in element.children() {
            self.visit(child, place);
        }
    }

    fn visit(&mut self, element: &'g Element, place: &Place<'g>) {
        match element.name() {
            "element" => self.element(element, place),
            "attribute" => {
                for name in names(element) {
                    let mut inside = place.clone();
                    inside.attribute = Some(name);
                    let content = element.children().filter(|child| !is_name(child));
                    let content: Vec<_> = content.collect();
                    if content.is_empty() {
                        self.leaf(&inside).types.insert(String::new());
                    }
                    for child in content {
                        self.visit(child, &inside);
                    }
                }
            }
            "ref" => {
                let name = element.attr("name").unwrap();
                let Some((name, bodies)) = self.grammar.defines.get_key_value(name.as_ref()) else {
                    panic!("the schema does not define {name}");
                };
                if place
                    .inside
                    .iter()
                    .filter(|inside| **inside == name)
                    .count()
                    < 2
                {
                    let mut inside = place.clone();
                    inside.inside.push(name);
                    for body in bodies {
                        self.children(body, &inside);
                    }
                }
            }
            "text" | "data" => {
                let kind = place.inside.last().copied().unwrap_or_default();
                let kind = match element.attr("type") {
                    Some(data) if data != "string" => data.into_owned(),
                    _ => kind.to_owned(),
                };
                self.leaf(place).types.insert(kind);
            }
            "value" => {
                let value = element.text();
                self.leaf(place).names.insert(value);
            }
            "name" | "anyName" | "nsName" | "notAllowed" | "empty" => {}
            _ => self.children(element, place),
        }
    }

    fn element(&mut self, element: &'g Element, place: &Place<'g>) {
        let namespace = element.attr("ns").unwrap_or_default();
        let prefix = NAMESPACES.iter().find(|(uri, _)| *uri == namespace);
        let prefix = prefix.map_or("", |(_, prefix)| prefix);
        for name in names(element) {
            let name = format!("{prefix}{name}");
            // Backing stores nest without an end.
            if place.path.iter().filter(|step| **step == name).count() >= 2 {
                continue;
            }
            let mut inside = Place {
                path: place.path.clone(),
                ..Place::default()
            };
            inside.path.push(name);
            if self
                .seen
                .insert((std::ptr::from_ref(element), inside.path.clone()))
            {
                let counts = self.counts(element, &mut Vec::new());
                for (child, count) in counts {
                    let known = self.schema.counts.entry((inside.path.clone(), child));
                    let known = known.or_default();
                    *known = (*known).max(count);
                }
                self.children(element, &inside);
            }
        }
    }

    fn leaf(&mut self, place: &Place<'_>) -> &mut Values {
        let leaf = (place.path.clone(), place.attribute.clone());
        self.schema.leaves.entry(leaf).or_default()
    }

    /// How often each child may stand in this part of an element's content.
    fn counts(&self, part: &Element, open: &mut Vec<String>) -> BTreeMap<String, usize> {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for child in part.children() {
            let one = match child.name() {
                "element" => names(child).into_iter().map(|name| (name, 1)).collect(),
                "attribute" => BTreeMap::new(),
                "ref" => {
                    let name = child.attr("name").unwrap().into_owned();
                    if open.contains(&name) {
                        continue;
                    }
                    open.push(name);
                    let bodies = &self.grammar.defines[open.last().unwrap().as_str()];
                    let mut all = BTreeMap::new();
                    for body in bodies {
                        add(&mut all, self.counts(body, open), |a, b| a + b);
                    }
                    open.pop();
                    all
                }
                "zeroOrMore" | "oneOrMore" => {
                    let inner = self.counts(child, open);
                    inner.into_keys().map(|name| (name, 2)).collect()
                }
                _ => self.counts(child, open),
            };
            match part.name() {
                "choice" => add(&mut counts, one, usize::max),
                _ => add(&mut counts, one, |a, b| a + b),
            }
        }
        counts
    }
}

fn add(
    all: &mut BTreeMap<String, usize>,
    more: BTreeMap<String, usize>,
    join: fn(usize, usize) -> usize,
) {
    for (name, count) in more {
        let known = all.entry(name).or_default();
        *known = join(*known, count).min(2);
    }
}

fn is_name(element: &Element) -> bool {
    let named = |child: &Element| matches!(child.name(), "name" | "anyName" | "nsName");
    named(element) || (element.name() == "choice" && element.children().all(named))
}

/// The names of an element or attribute; `*` for any.
fn names(element: &Element) -> Vec<String> {
    if let Some(name) = element.attr("name") {
        return vec![name.into_owned()];
    }
    let first = element.children().next().unwrap();
    match first.name() {
        "name" => vec![first.text().trim().to_owned()],
        "choice" => first
            .children()
            .map(|name| name.text().trim().to_owned())
            .collect(),
        _ => vec!["*".to_owned()],
    }
}
