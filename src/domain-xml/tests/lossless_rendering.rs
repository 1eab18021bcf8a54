//! Unedited parts render byte for byte.
#![allow(clippy::unwrap_used, missing_docs)]

use domain_xml::{Document, Element, Limits};

const ODD: &str = "<?xml version='1.0'  encoding=\"UTF-8\"?>\r\n<!-- before -->\n<?keep me?>\n\
<domain type = \"kvm\"\n        id='1' xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0' >\r\n\
\t<name >vm &amp; co</name >\n\t<a/><b></b><c />\n\
\t<description><![CDATA[<raw> & ]]>and &#x41; > \"text\"</description>\n\
\t<!-- inside --><?pi data?>\n\
\t<unknown xmlns=\"urn:x\" x:y='\"'/>\n\
</domain>\n<!-- after -->\n";

#[test]
fn unedited_documents_render_byte_for_byte() {
    assert_eq!(Document::parse(ODD).unwrap().render(), ODD);
    for small in [
        "<a/>",
        "<a></a>",
        "<a />",
        "<a\n/>",
        "\u{FEFF}<a/>",
        " \n<a> </a>\n ",
        "<é ü='ö'>ß🦀</é>",
    ] {
        assert_eq!(Document::parse(small).unwrap().render(), small, "{small}");
    }
}

#[test]
fn edits_change_only_their_own_bytes() {
    let mut domain = Document::parse(ODD).unwrap();
    domain.root_mut().set_attr("id", "2");
    domain
        .root_mut()
        .child_mut("name")
        .unwrap()
        .set_text("other");
    assert_eq!(
        domain.render(),
        ODD.replace("id='1'", "id='2'")
            .replace("vm &amp; co", "other")
    );
}

#[test]
fn setting_the_same_value_changes_no_byte() {
    let mut domain = Document::parse(ODD).unwrap();
    let root = domain.root_mut();
    root.set_attr("type", "kvm");
    root.child_mut("name").unwrap().set_text("vm & co");
    let text = root.child("description").unwrap().text();
    assert_eq!(text, "<raw> & and A > \"text\"");
    root.child_mut("description").unwrap().set_text(text);
    root.ensure_child("a");
    assert_eq!(domain.render(), ODD);
}

#[test]
fn values_are_escaped_for_their_quotes() {
    let mut domain = Document::parse("<a b=\"1\" c='1'>x</a>").unwrap();
    domain
        .root_mut()
        .set_attr("b", "\"'<&>\n")
        .set_attr("c", "\"'")
        .set_text("<&>\u{0}");
    let text = domain.render();
    assert_eq!(
        text,
        "<a b=\"&quot;'&lt;&amp;&gt;&#10;\" c='\"&apos;'>&lt;&amp;&gt;\u{FFFD}</a>"
    );
    assert_eq!(
        Document::parse(&text).unwrap().root().attr("b").unwrap(),
        "\"'<&>\n"
    );
}

#[test]
fn inserted_elements_are_indented_like_their_neighbours() {
    let mut domain = Document::parse("<domain type=\"kvm\">\n\t<name>vm</name>\n\t<devices>\n\t\t<disk/>\n\t</devices>\n</domain>").unwrap();
    let root = domain.root_mut();
    root.insert_after("name", Element::new("uuid").with_text("1"));
    root.insert_before("name", Element::new("title"));
    root.append(
        Element::new("cpu").with_child(Element::new("model").with_attr("fallback", "forbid")),
    );
    let devices = root.child_mut("devices").unwrap();
    devices.prepend(Element::new("emulator"));
    devices.append(Element::new("rng"));
    assert_eq!(
        domain.render(),
        "<domain type=\"kvm\">\n\t<title/>\n\t<name>vm</name>\n\t<uuid>1</uuid>\n\t<devices>\n\t\t<emulator/>\n\t\t<disk/>\n\t\t<rng/>\n\t</devices>\n\t<cpu>\n\t\t<model fallback='forbid'/>\n\t</cpu>\n</domain>"
    );
}

#[test]
fn documents_on_one_line_stay_on_one_line() {
    let mut domain = Document::parse("<domain><name>vm</name></domain>").unwrap();
    domain
        .root_mut()
        .ensure_child("os")
        .append(Element::new("type").with_text("hvm"));
    assert_eq!(
        domain.render(),
        "<domain><name>vm</name><os><type>hvm</type></os></domain>"
    );
}

#[test]
fn mixed_content_is_not_indented() {
    let mut document = Document::parse("<a>\n <p>one <b/>two</p>\n</a>").unwrap();
    document
        .root_mut()
        .child_mut("p")
        .unwrap()
        .append(Element::new("c"));
    assert_eq!(document.render(), "<a>\n <p>one <b/>two<c/></p>\n</a>");
}

#[test]
fn ordered_insertion_follows_the_given_order() {
    const ORDER: &[&str] = &["name", "uuid", "memory", "os", "devices"];
    let mut domain = Document::parse("<domain>\n <name/>\n <os/>\n <x/>\n</domain>").unwrap();
    let root = domain.root_mut();
    root.insert_ordered(Element::new("devices"), ORDER);
    root.insert_ordered(Element::new("memory"), ORDER);
    root.ensure_child_ordered("uuid", ORDER);
    root.ensure_child_ordered("os", ORDER);
    root.insert_ordered(Element::new("other"), ORDER);
    let names: Vec<_> = domain.root().children().map(Element::tag_name).collect();
    assert_eq!(
        names,
        ["name", "uuid", "memory", "os", "devices", "x", "other"]
    );
}

#[test]
fn removal_deletes_complete_lines() {
    let mut domain = Document::parse("<a>\n  <b/>\n  <c/>\n  <b/>\n</a>").unwrap();
    assert_eq!(domain.root_mut().remove_children(|child| child.is("b")), 2);
    assert_eq!(domain.render(), "<a>\n  <c/>\n</a>");
    assert!(domain.root_mut().remove_child("c").is_some());
    assert!(domain.root_mut().remove_child("c").is_none());
    assert_eq!(domain.render(), "<a></a>");
}

#[test]
fn qemu_elements_are_found_by_any_prefix_and_declared_on_insertion() {
    let mut domain = Document::parse("<domain type='kvm'>\n  <name/>\n</domain>").unwrap();
    domain
        .root_mut()
        .ensure_child("qemu:commandline")
        .append(Element::new("qemu:arg").with_attr("value", "-S"));
    let text = domain.render();
    assert_eq!(
        text,
        "<domain type='kvm' xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'>\n  <name/>\n  <qemu:commandline>\n    <qemu:arg value='-S'/>\n  </qemu:commandline>\n</domain>"
    );

    let other = text.replace("qemu:", "q:").replace("xmlns:qemu", "xmlns:q");
    let mut other = Document::parse(&other).unwrap();
    assert!(other.root().child("qemu:commandline").is_some());
    other.root_mut().ensure_child("qemu:commandline");
    assert_eq!(other.root().children().count(), 2);
}

#[test]
fn deep_documents_do_not_exhaust_the_stack() {
    let deep = |levels: usize| "<a>".repeat(levels) + &"</a>".repeat(levels);
    let boundless = Limits::unlimited().with_depth(usize::MAX);
    assert!(Document::parse_with(&deep(512), &boundless).is_ok());
    assert!(Document::parse_with(&deep(200_000), &boundless).is_err());
    let built = (0..200_000).fold(Element::new("a"), |inner, _| {
        Element::new("a").with_child(inner)
    });
    let document = Document::new(built);
    assert_eq!(document.render().len(), 200_000 * 7 + 4);
    assert!(domain_xml::host::diff(&document, &Document::new(Element::new("a"))).len() == 1);
    drop(document);
}
