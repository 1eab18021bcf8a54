//! Inserted elements have the same names before and after the text is parsed again.
#![allow(clippy::unwrap_used, missing_docs)]

use std::collections::{BTreeMap, BTreeSet};

use domain_xml::host::diff;
use domain_xml::{Document, Element};
use proptest::prelude::*;

const QEMU: &str = "http://libvirt.org/schemas/domain/qemu/1.0";
const PREFIXES: [&str; 4] = ["", "q:", "qemu:", "lxc:"];

/// `xmlns`, `xmlns:q`, ... for namespaces that are known, that are not, and that end another.
fn declaration() -> impl Strategy<Value = (String, &'static str)> {
    let prefix = prop::sample::select(&["xmlns", "xmlns:q", "xmlns:qemu", "xmlns:lxc"][..]);
    let uri = prop::sample::select(
        &[
            QEMU,
            QEMU,
            "http://libvirt.org/schemas/domain/lxc/1.0",
            "http://kubevirt.io",
            "urn:x",
        ][..],
    );
    (prefix.prop_map(str::to_owned), uri)
}

fn declarations() -> impl Strategy<Value = Vec<(String, &'static str)>> {
    prop_oneof![2 => Just(Vec::new()), 1 => prop::collection::vec(declaration(), 1..3)]
}

fn name() -> impl Strategy<Value = String> {
    (prop::sample::select(&PREFIXES[..]), "[ab]")
        .prop_map(|(prefix, local)| format!("{prefix}{local}"))
}

/// An element for insertion, with content.
fn made() -> impl Strategy<Value = Element> {
    let with = |name: String, declarations: Vec<(String, &str)>| {
        let element = Element::new(name);
        declarations
            .iter()
            .fold(element, |element, (key, uri)| element.with_attr(key, uri))
    };
    let leaf = (name(), declarations()).prop_map(move |(name, own)| with(name, own));
    leaf.prop_recursive(3, 12, 3, move |inner| {
        let children = prop::collection::vec(inner, 0..3);
        (name(), declarations(), children).prop_map(move |(name, own, children)| {
            let element = with(name, own);
            children.into_iter().fold(element, Element::with_child)
        })
    })
}

/// Nested elements with declarations of all prefixes that they use.
fn document() -> impl Strategy<Value = String> {
    prop::collection::vec((name(), declarations()), 1..5).prop_map(|elements| {
        let mut declared = BTreeSet::new();
        let (mut head, mut tail) = (String::new(), String::new());
        for (name, own) in elements {
            let own: BTreeMap<_, _> = own.into_iter().collect();
            declared.extend(own.keys().cloned());
            let name = match name.split_once(':') {
                Some((prefix, local)) if !declared.contains(&format!("xmlns:{prefix}")) => local,
                _ => &name,
            };
            let own = own.iter().map(|(key, uri)| format!(" {key}='{uri}'"));
            head += &format!("<{name}{}>", own.collect::<String>());
            tail = format!("<d/></{name}>{tail}");
        }
        format!("{head}<c/>{tail}")
    })
}

/// The canonical names of all elements, in document order.
fn names(root: &Element) -> Vec<String> {
    let below = root.children().flat_map(names);
    std::iter::once(root.canonical_name().to_owned())
        .chain(below)
        .collect()
}

fn nth(element: &mut Element, depth: usize) -> &mut Element {
    let deeper = depth > 0 && element.children().next().is_some();
    if !deeper {
        return element;
    }
    nth(element.children_mut().next().unwrap(), depth - 1)
}

fn agrees_with_its_text(document: &Document) {
    let repeated = Document::parse(&document.render()).unwrap();
    assert_eq!(names(document.root()), names(repeated.root()), "{document}");
    assert_eq!(diff(document, &repeated), vec![], "{document}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn added_elements_resolve_their_names_at_once(xml in document(), element in made(), more in name(), depth in 0_usize..5) {
        let mut document = Document::parse(&xml).unwrap();
        let added = nth(document.root_mut(), depth).append(element);
        added.append(Element::new(more));
        agrees_with_its_text(&document);
    }

    #[test]
    fn moved_elements_keep_their_namespace(from in document(), to in document(), name in name()) {
        let mut from = Document::parse(&from).unwrap();
        let added = from.root_mut().append(Element::new(name));
        let known = (added.tag_name() != added.canonical_name()).then(|| added.canonical_name().to_owned());
        let moved = from.root_mut().children_mut().next_back().unwrap().clone();
        let mut to = Document::parse(&to).unwrap();
        let arrived = to.root_mut().append(moved);
        if let Some(known) = known.filter(|name| name.contains(':')) {
            prop_assert_eq!(arrived.canonical_name(), known);
        }
        agrees_with_its_text(&to);
    }
}

#[test]
fn canonical_names_are_written_with_the_documents_prefix() {
    let text = format!("<domain xmlns:q='{QEMU}'><q:commandline/></domain>");
    let mut domain = Document::parse(&text).unwrap();
    let line = domain.root_mut().ensure_child("qemu:commandline");
    let arg = line.append(Element::new("qemu:arg").with_attr("value", "-S"));
    assert!(arg.is("qemu:arg"));
    assert_eq!(arg.tag_name(), "q:arg");
    line.append(Element::new("q:arg").with_attr("value", "-s"));
    assert_eq!(line.children_named("qemu:arg").count(), 2);
    assert_eq!(
        domain.render(),
        format!(
            "<domain xmlns:q='{QEMU}'><q:commandline><q:arg value='-S'/><q:arg value='-s'/></q:commandline></domain>"
        )
    );
}

#[test]
fn canonical_names_without_a_document_prefix_are_declared() {
    let mut domain = Document::parse("<domain><name>vm</name></domain>").unwrap();
    let line = Element::new("qemu:commandline").with_child(Element::new("qemu:arg"));
    domain.root_mut().append(line);
    assert_eq!(
        domain.render(),
        format!(
            "<domain xmlns:qemu='{QEMU}'><name>vm</name><qemu:commandline><qemu:arg/></qemu:commandline></domain>"
        )
    );
}

#[test]
fn deep_insertions_do_not_exhaust_the_stack() {
    let mut deep = Element::new("q:a").with_attr("xmlns:q", QEMU);
    for _ in 1..domain_xml::MAX_DEPTH {
        deep = Element::new("q:a")
            .with_attr("xmlns:q", QEMU)
            .with_child(deep);
    }
    let mut domain = Document::parse("<domain><name>vm</name></domain>").unwrap();
    let added = domain.root_mut().append(deep);
    assert!(added.is("qemu:a"));
    drop(domain);
}
