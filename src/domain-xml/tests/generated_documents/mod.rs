//! Random documents, and random edits as hooks make them.
#![allow(dead_code, unreachable_pub)]

use domain_xml::{Document, Element};
use proptest::prelude::*;

const NAMES: &[&str] = &[
    "disk", "target", "alias", "driver", "os", "boot", "entry", "metadata", "emulator", "name",
    "q:arg", "x:y", "source",
];
const ATTRIBUTES: &[&str] = &["dev", "name", "type", "file", "x:dev", "q:value"];
const VALUES: &[&str] = &["a", "b", "'\"<&>", " \n", "", "vda"];
const ROOT: &str = "<domain xmlns:q='http://libvirt.org/schemas/domain/qemu/1.0' xmlns:x='urn:x'>";

/// A tree generated from numbers.
pub fn tree() -> impl Strategy<Value = String> {
    prop::collection::vec(
        (
            0..10usize,
            any::<prop::sample::Index>(),
            any::<prop::sample::Index>(),
        ),
        0..40,
    )
    .prop_map(|ops| {
        let mut xml = ROOT.to_owned();
        let mut open = vec!["domain"];
        for (op, a, b) in ops {
            let (name, value) = (NAMES[a.index(NAMES.len())], VALUES[b.index(2)]);
            let attribute = ATTRIBUTES[b.index(ATTRIBUTES.len())];
            match op {
                0..=2 => {
                    xml += &format!("<{name} {attribute}='{value}'>");
                    open.push(name);
                }
                3 => {
                    xml += &format!("<{name} xmlns:x='urn:{value}' xmlns='urn:z'>");
                    open.push(name);
                }
                4..=5 if open.len() > 1 => xml += &format!("</{}>\n", open.pop().unwrap()),
                6 => xml += &format!("<{name} {attribute}='{value}'/>"),
                7 => xml += "text &amp;",
                8 => xml += "<![CDATA[<a>]]>",
                _ => xml += " \n<!-- c -->",
            }
        }
        while let Some(name) = open.pop() {
            xml += &format!("</{name}>");
        }
        xml
    })
}

/// One edit as hooks make them.
type Edit = (
    usize,
    prop::sample::Index,
    prop::sample::Index,
    prop::sample::Index,
);

fn edits() -> impl Strategy<Value = Vec<Edit>> {
    let index = any::<prop::sample::Index>;
    prop::collection::vec((0..9usize, index(), index(), index()), 0..6)
}

fn make(document: &mut Document, (op, place, a, b): &Edit) {
    let count = document.find_all("**").unwrap().len();
    let element = nth(document.root_mut(), place.index(count));
    let name = NAMES[a.index(NAMES.len())];
    let (attribute, value) = (
        ATTRIBUTES[a.index(ATTRIBUTES.len())],
        VALUES[b.index(VALUES.len())],
    );
    match op {
        0 => drop(element.set_attr(attribute, value)),
        1 => drop(element.remove_attr(attribute)),
        2 => drop(element.set_text(value)),
        3 => drop(element.append(Element::new(name).with_attr("dev", value).with_text(value))),
        4 => drop(element.prepend(
            Element::new(name).with_child(Element::new("target").with_attr("dev", value)),
        )),
        5 => drop(element.remove_child(name)),
        6 => {
            let child = element.remove_child(name);
            child.map(|child| element.prepend(child));
        }
        7 => {
            let twin = element.children().next().cloned();
            twin.map(|twin| element.append(twin));
        }
        _ => drop(element.ensure(&format!("{name}[@dev='b']/driver"))),
    }
}

/// The element at an index in document order.
pub fn nth(root: &mut Element, mut at: usize) -> &mut Element {
    let mut element = root;
    'down: while at > 0 {
        at -= 1;
        let sizes: Vec<usize> = element
            .children()
            .map(|child| child.find_all("**").unwrap().len())
            .collect();
        for (n, size) in sizes.into_iter().enumerate() {
            if at < size {
                element = element.children_mut().nth(n).unwrap();
                continue 'down;
            }
            at -= size;
        }
        break;
    }
    element
}

/// A document, and the same document after a hook's edits.
pub fn hooked() -> impl Strategy<Value = (Document, Document)> {
    (tree(), edits()).prop_map(|(xml, edits)| {
        let before = Document::parse(&xml).unwrap();
        let mut after = before.clone();
        for edit in &edits {
            make(&mut after, edit);
        }
        (before, Document::parse(&after.render()).unwrap())
    })
}
