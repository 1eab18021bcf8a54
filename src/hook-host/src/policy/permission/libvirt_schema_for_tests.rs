//! Reads libvirt's RELAX NG schema of domains: all attributes and texts of elements, and how often elements may occur.

mod rng_grammar;

use std::collections::{BTreeMap, BTreeSet, HashSet};

use domain_xml::Element;

use rng_grammar::{Grammar, is_name, names};

/// An attribute, or the text of an element: the names of the elements from the root, and of the attribute.
pub(crate) type Leaf = (Vec<String>, Option<String>);

/// The values that the schema permits for a leaf.
#[derive(Default)]
pub(crate) struct Values {
    /// The definitions of the value, such as `absFilePath`; the empty name for a text without a definition.
    pub(crate) types: BTreeSet<String>,
    /// The values of an enumeration.
    pub(crate) names: BTreeSet<String>,
}

/// The leaves of a domain, and how often elements may occur in their parents.
#[derive(Default)]
pub(crate) struct Schema {
    pub(crate) leaves: BTreeMap<Leaf, Values>,
    /// The maximum number of children of a name, by the path of the parent and the name. 2 means "several".
    pub(crate) counts: BTreeMap<(Vec<String>, String), usize>,
}

/// The namespaces of hypervisors, with their prefixes.
const NAMESPACES: &[(&str, &str)] = &[
    ("http://libvirt.org/schemas/domain/qemu/1.0", "qemu:"),
    ("http://libvirt.org/schemas/domain/lxc/1.0", "lxc:"),
    ("http://libvirt.org/schemas/domain/xen/1.0", "xen:"),
    ("http://libvirt.org/schemas/domain/bhyve/1.0", "bhyve:"),
];

/// The position of the walk in a domain.
#[derive(Clone, Default)]
struct Position<'a> {
    path: Vec<String>,
    attribute: Option<String>,
    /// The definitions that contain the position, innermost last.
    definitions: Vec<&'a str>,
}

/// A walk through the grammar that collects the schema.
struct SchemaWalk<'g> {
    grammar: &'g Grammar,
    schema: Schema,
    /// The definitions of elements that were visited, with their paths.
    seen: HashSet<(*const Element, Vec<String>)>,
}

/// Reads the schema of this machine's libvirt.
pub(crate) fn read() -> Schema {
    let grammar = Grammar::load();
    let mut walk = SchemaWalk {
        grammar: &grammar,
        schema: Schema::default(),
        seen: HashSet::new(),
    };
    for start in grammar.starts() {
        walk.visit_children(start, &Position::default());
    }
    walk.schema
}

impl<'g> SchemaWalk<'g> {
    fn visit_children(&mut self, element: &'g Element, position: &Position<'g>) {
        for child in element.children() {
            self.visit(child, position);
        }
    }

    fn visit(&mut self, element: &'g Element, position: &Position<'g>) {
        match element.tag_name() {
            "element" => self.visit_element(element, position),
            "attribute" => {
                for name in names(element) {
                    let mut inside = position.clone();
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
                if position
                    .definitions
                    .iter()
                    .filter(|definition| **definition == name)
                    .count()
                    < 2
                {
                    let mut inside = position.clone();
                    inside.definitions.push(name);
                    for body in bodies {
                        self.visit_children(body, &inside);
                    }
                }
            }
            "text" | "data" => {
                let kind = position.definitions.last().copied().unwrap_or_default();
                let kind = match element.attr("type") {
                    Some(data) if data != "string" => data.into_owned(),
                    _ => kind.to_owned(),
                };
                self.leaf(position).types.insert(kind);
            }
            "value" => {
                let value = element.text();
                self.leaf(position).names.insert(value);
            }
            "name" | "anyName" | "nsName" | "notAllowed" | "empty" => {}
            _ => self.visit_children(element, position),
        }
    }

    fn visit_element(&mut self, element: &'g Element, position: &Position<'g>) {
        let namespace = element.attr("ns").unwrap_or_default();
        let prefix = NAMESPACES.iter().find(|(uri, _)| *uri == namespace);
        let prefix = prefix.map_or("", |(_, prefix)| prefix);
        for name in names(element) {
            let name = format!("{prefix}{name}");
            // Backing stores contain backing stores.
            if position.path.iter().filter(|step| **step == name).count() >= 2 {
                continue;
            }
            let mut inside = Position {
                path: position.path.clone(),
                ..Position::default()
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
                self.visit_children(element, &inside);
            }
        }
    }

    fn leaf(&mut self, position: &Position<'_>) -> &mut Values {
        let leaf = (position.path.clone(), position.attribute.clone());
        self.schema.leaves.entry(leaf).or_default()
    }

    /// How often each child may occur in this part of an element's content. `open` are the definitions that contain it.
    fn counts(&self, part: &Element, open: &mut Vec<String>) -> BTreeMap<String, usize> {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for child in part.children() {
            let of_child = match child.tag_name() {
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
                        merge(&mut all, self.counts(body, open), |a, b| a + b);
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
            match part.tag_name() {
                "choice" => merge(&mut counts, of_child, usize::max),
                _ => merge(&mut counts, of_child, |a, b| a + b),
            }
        }
        counts
    }
}

fn merge(
    all: &mut BTreeMap<String, usize>,
    more: BTreeMap<String, usize>,
    join: fn(usize, usize) -> usize,
) {
    for (name, count) in more {
        let known = all.entry(name).or_default();
        *known = join(*known, count).min(2);
    }
}
