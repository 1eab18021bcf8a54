//! Properties of parsing, rendering, editing and diffs, for generated documents.
#![allow(clippy::unwrap_used, missing_docs)]

#[path = "../fuzz/quick_xml_oracle.rs"]
#[allow(unreachable_pub)]
mod quick_xml_oracle;

use domain_xml::host::{ChangeKind, apply, diff};
use domain_xml::{Document, PathPattern};
use proptest::prelude::*;

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("disk".to_owned()),
        Just("target".to_owned()),
        Just("alias".to_owned()),
        Just("entry".to_owned()),
        Just("source".to_owned()),
        Just("q:arg".to_owned()),
        Just("boot".to_owned()),
    ]
}

fn space() -> impl Strategy<Value = String> {
    prop_oneof![3 => Just(String::new()), 1 => "[ \t\n]{1,3}"]
}

fn attribute() -> impl Strategy<Value = (String, String)> {
    let key = prop_oneof![
        Just("dev"),
        Just("name"),
        Just("type"),
        Just("value"),
        Just("id")
    ];
    let value = prop_oneof![
        Just("a"),
        Just("b"),
        Just("c&amp;d"),
        Just("&#x41;"),
        Just(""),
        Just("é")
    ];
    (key, value, any::<bool>(), space()).prop_map(|(key, value, double, space)| {
        let quote = if double { '"' } else { '\'' };
        (
            key.to_owned(),
            format!(" {space}{key}{space}={quote}{value}{quote}"),
        )
    })
}

fn attributes() -> impl Strategy<Value = String> {
    prop::collection::btree_map("", attribute(), 0..1).prop_flat_map(|_| {
        prop::collection::vec(attribute(), 0..4).prop_map(|list| {
            let mut seen = std::collections::HashSet::new();
            list.into_iter()
                .filter(|(key, _)| seen.insert(key.clone()))
                .map(|(_, text)| text)
                .collect()
        })
    })
}

fn content() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("text".to_owned()),
        Just("&lt;x&gt;".to_owned()),
        Just("<![CDATA[<raw>]]>".to_owned()),
        Just("<!-- note -->".to_owned()),
        Just("<?pi?>".to_owned()),
        "[ \t\n]{1,4}",
    ]
}

fn element() -> impl Strategy<Value = String> {
    let leaf = (name(), attributes(), space(), any::<bool>()).prop_map(
        |(name, attributes, space, empty)| {
            if empty {
                format!("<{name}{attributes}{space}/>")
            } else {
                format!("<{name}{attributes}></{name}{space}>")
            }
        },
    );
    leaf.prop_recursive(4, 48, 6, |inner| {
        let children = prop::collection::vec(prop_oneof![3 => inner, 1 => content()], 0..6);
        (name(), attributes(), children).prop_map(|(name, attributes, children)| {
            format!("<{name}{attributes}>{}</{name}>", children.concat())
        })
    })
}

fn document() -> impl Strategy<Value = String> {
    prop::collection::vec(element(), 0..5).prop_map(|children| {
        format!(
            "<domain xmlns:q='http://libvirt.org/schemas/domain/qemu/1.0'>{}</domain>\n",
            children.join("\n  ")
        )
    })
}

const DAMAGE: &[&str] = &[
    "<!-- - -->",
    "<!--",
    "--",
    "-->",
    "<![CDATA[",
    "]]>",
    "<?x?>",
    "<?xml?>",
    "?>",
    "<!DOCTYPE a>",
    "&#1;",
    "&#x110000;",
    "&#65",
    "\u{FFFE}",
    "\u{FEFF}",
    "\u{1}",
    "\r\n",
    " a='1'",
    " a = \"<\"",
    "/>",
    "</q:arg>",
    "\u{B7}",
    "<\u{B7}/>",
];

fn damage() -> impl Strategy<Value = String> {
    let markup = prop::sample::select(DAMAGE);
    prop_oneof!["[<>&/'\"\\]a ]{0,2}", markup.prop_map(str::to_owned)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn parse_and_render_are_inverse(xml in document()) {
        prop_assert_eq!(Document::parse(&xml).unwrap().render(), xml);
    }

    #[test]
    fn documents_equal_themselves(xml in document()) {
        let document = Document::parse(&xml).unwrap();
        prop_assert_eq!(diff(&document, &document), vec![]);
        let other_prefix = xml.replace("q:", "z:").replace("xmlns:q", "xmlns:z").replace('\'', "\"").replace("/>", " />");
        if let Ok(other) = Document::parse(&other_prefix) {
            prop_assert_eq!(diff(&document, &other), vec![]);
        }
    }

    #[test]
    fn paths_of_a_diff_select_their_places(before in document(), after in document()) {
        let (before, after) = (Document::parse(&before).unwrap(), Document::parse(&after).unwrap());
        for change in diff(&before, &after) {
            let path = PathPattern::parse(&change.path).unwrap();
            let place = if change.kind == ChangeKind::Inserted { &after } else { &before };
            prop_assert_eq!(path.find_all(place.root()).len(), 1, "{}", change.path);
        }
    }

    #[test]
    fn applied_diffs_give_the_document_after(before in document(), after in document()) {
        let (before, after) = (Document::parse(&before).unwrap(), Document::parse(&after).unwrap());
        let changes = diff(&before, &after);
        let applied = apply(&changes, &before).unwrap();
        prop_assert_eq!(diff(&applied, &after), vec![], "{} after {:#?}", applied, changes);
        prop_assert_eq!(diff(&after, &applied), vec![]);
    }

    #[test]
    fn applying_no_changes_keeps_every_byte(xml in document()) {
        let document = Document::parse(&xml).unwrap();
        prop_assert_eq!(apply(&[], &document).unwrap().render(), xml);
    }

    #[test]
    fn reversed_diffs_swap_before_and_after(before in document(), after in document()) {
        let (before, after) = (Document::parse(&before).unwrap(), Document::parse(&after).unwrap());
        let count = |changes: &[domain_xml::host::Change], kind| changes.iter().filter(|change| change.kind == kind).count();
        let (there, back) = (diff(&before, &after), diff(&after, &before));
        prop_assert_eq!(count(&there, ChangeKind::Inserted), count(&back, ChangeKind::Removed));
        prop_assert_eq!(count(&there, ChangeKind::Removed), count(&back, ChangeKind::Inserted));
        prop_assert_eq!(there.is_empty(), back.is_empty());
    }

    #[test]
    fn set_value_is_read_back_and_the_rest_is_unchanged(xml in document(), value in any::<String>()) {
        let before = Document::parse(&xml).unwrap();
        let mut after = before.clone();
        after.root_mut().set("sysinfo[@type='smbios']/baseBoard/entry[@name='manufacturer']", &value).unwrap();
        let repeated = Document::parse(&after.render()).unwrap();
        prop_assert_eq!(diff(&after, &repeated), vec![]);
        let changes = diff(&before, &repeated);
        prop_assert_eq!(changes.len(), 1);
        prop_assert_eq!(changes[0].path.as_str(), "/domain/sysinfo[@type='smbios']");
    }

    #[test]
    fn nothing_makes_the_parsers_panic(text in "[<>&;/a-c='\"! \\[\\]\\-?#x1@*:]{0,40}") {
        if let Ok(document) = Document::parse(&text) {
            prop_assert_eq!(document.render(), text.clone());
        }
        quick_xml_oracle::agrees(&text);
        let _ = PathPattern::parse(&text);
    }

    #[test]
    fn quick_xml_reads_the_same(xml in document()) {
        quick_xml_oracle::agrees(&xml);
    }

    #[test]
    fn damaged_documents_round_trip_or_are_refused(xml in document(), at in any::<prop::sample::Index>(), put in damage()) {
        let mut damaged = xml;
        let at = at.index(damaged.len());
        if damaged.is_char_boundary(at) && damaged.is_char_boundary(at + 1) {
            damaged.replace_range(at..=at, &put);
        }
        quick_xml_oracle::agrees(&damaged);
        if let Ok(document) = Document::parse(&damaged) {
            prop_assert_eq!(document.render(), damaged);
        }
    }
}
