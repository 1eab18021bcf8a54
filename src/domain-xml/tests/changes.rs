//! Laws of changes: applied they lead to the document after, and patterns judge all of them.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use domain_xml::grant::{self, Checker, Permission, Reason};
use domain_xml::{Document, Element, PathPattern, apply, diff};
use proptest::prelude::*;

const NAMES: &[&str] = &[
    "disk", "target", "alias", "driver", "os", "boot", "entry", "metadata", "emulator", "name",
    "q:arg", "x:y", "source",
];
const ATTRIBUTES: &[&str] = &["dev", "name", "type", "file", "x:dev", "q:value"];
const VALUES: &[&str] = &["a", "b", "'\"<&>", " \n", "", "vda"];
const ROOT: &str = "<domain xmlns:q='http://libvirt.org/schemas/domain/qemu/1.0' xmlns:x='urn:x'>";

/// A tree written by numbers: what to open, what to put in, when to close.
fn tree() -> impl Strategy<Value = String> {
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

/// One edit as a hook makes them: what, where, and with what.
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

/// The element at a place in document order.
fn nth(root: &mut Element, mut at: usize) -> &mut Element {
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

/// A document, and what a hook made of it, read back.
fn hooked() -> impl Strategy<Value = (Document, Document)> {
    (tree(), edits()).prop_map(|(xml, edits)| {
        let before = Document::parse(&xml).unwrap();
        let mut after = before.clone();
        for edit in &edits {
            make(&mut after, edit);
        }
        (before, Document::parse(&after.render()).unwrap())
    })
}

fn pattern(path: &str) -> PathPattern {
    PathPattern::parse(path).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn applied_they_lead_to_the_document_after((before, after) in hooked()) {
        let changes = diff(&before, &after);
        let applied = apply(&changes, &before).unwrap();
        prop_assert_eq!(diff(&applied, &after), vec![], "{} by {:#?}", applied, changes);
        let back = apply(&diff(&after, &before), &after).unwrap();
        prop_assert_eq!(diff(&back, &before), vec![]);
    }

    #[test]
    fn any_two_documents_lead_to_each_other(before in tree(), after in tree()) {
        let (before, after) = (Document::parse(&before).unwrap(), Document::parse(&after).unwrap());
        let applied = apply(&diff(&before, &after), &before).unwrap();
        prop_assert_eq!(diff(&applied, &after), vec![]);
    }

    #[test]
    fn they_are_refused_elsewhere_or_do_no_harm((before, after) in hooked(), other in tree()) {
        let _ = apply(&diff(&before, &after), &Document::parse(&other).unwrap());
    }

    #[test]
    fn nothing_is_permitted_without_a_pattern((before, after) in hooked()) {
        let mut checker = Checker::new(&[], &before, &after);
        for change in diff(&before, &after) {
            let refused = matches!(checker.permits(&change), Permission::Refused(_));
            prop_assert!(refused, "{:?}", change);
        }
    }

    #[test]
    fn everything_permits_all_but_the_dangerous_and_the_reserved((before, after) in hooked()) {
        let all = [pattern("/domain/**")];
        let mut checker = Checker::new(&all, &before, &after);
        for change in diff(&before, &after) {
            let dangers = checker.dangers(&change);
            match checker.permits(&change) {
                Permission::Granted { by } => {
                    prop_assert_eq!(by, vec![0]);
                    prop_assert_eq!(dangers, vec![], "{:?}", change);
                }
                Permission::Refused(refusal) => match refusal.reason {
                    Reason::Dangerous(_) => prop_assert!(!dangers.is_empty(), "{:?}", change),
                    Reason::Reserved(_) => prop_assert_eq!(refusal.hint, None),
                    other => prop_assert!(false, "{:?} {:?}", other, change),
                },
            }
        }
    }

    #[test]
    fn what_a_hint_offers_gets_past_the_refusal((before, after) in hooked()) {
        for change in diff(&before, &after) {
            let mut patterns = Vec::new();
            let mut places = Vec::new();
            // As many as an operator would add, one refusal at a time.
            for _ in 0..100 {
                let Permission::Refused(refusal) = grant::permits(&patterns, &change, &before, &after) else {
                    break;
                };
                let Some(hint) = refusal.hint else {
                    break;
                };
                prop_assert!(!places.contains(&(refusal.path.clone(), hint.clone())), "{} {}", refusal.path, hint);
                places.push((refusal.path, hint.clone()));
                patterns.push(pattern(&hint));
            }
        }
    }

    #[test]
    fn more_patterns_never_permit_less((before, after) in hooked(), pick in any::<prop::sample::Index>()) {
        const SOME: &[&str] = &["/domain/os/**", "/domain/disk[target/@dev='vda']/**", "**/driver", "/domain/*/@dev", "/domain/emulator/**", "/domain/boot[1]"];
        let one = vec![pattern(SOME[pick.index(SOME.len())])];
        let all: Vec<PathPattern> = SOME.iter().map(|path| pattern(path)).collect();
        for change in diff(&before, &after) {
            if let Permission::Granted { .. } = grant::permits(&one, &change, &before, &after) {
                let granted = matches!(grant::permits(&all, &change, &before, &after), Permission::Granted { .. });
                prop_assert!(granted, "{:?}", change);
            }
        }
    }

    #[test]
    fn one_edit_changes_one_stretch_of_bytes(xml in tree(), place in any::<prop::sample::Index>()) {
        let mut document = Document::parse(&xml).unwrap();
        let count = document.find_all("**").unwrap().len();
        nth(document.root_mut(), place.index(count)).set_attr("new", "v");
        let edited = document.render();
        prop_assert_eq!(edited.len(), xml.len() + " new='v'".len());
        prop_assert_eq!(edited.replacen(" new='v'", "", 1), xml);
    }
}
