//! Names and values that XML cannot express are errors, or are found at the end.
#![allow(clippy::unwrap_used)]

use domain_xml::{Document, EditError, Element, PathErrorKind};

const INVALID_NAMES: [&str; 6] = ["", "a b", "1st", ":a", "a:b:c", "a<b"];

#[test]
fn invalid_names_are_errors() {
    for name in INVALID_NAMES {
        let error = Element::try_new(name).unwrap_err();
        assert!(matches!(error, EditError::Name { .. }), "{name}: {error}");
        let mut element = Element::new("a");
        assert!(element.try_set_attr(name, "1").is_err(), "{name}");
        assert_eq!(element.render(), "<a/>");
    }
    assert_eq!(
        Element::try_new("qemu:arg").unwrap().render(),
        "<qemu:arg/>"
    );
}

#[test]
#[should_panic(expected = "Element::new: \"a b\" is not a name of an element or attribute")]
fn an_invalid_name_of_an_element_panics_with_the_name() {
    let _ = Element::new("a b");
}

#[test]
#[should_panic(expected = "Element::set_attr: \"a b\" is not a name of an element or attribute")]
fn an_invalid_name_of_an_attribute_panics_with_the_name() {
    Element::new("a").set_attr("a b", "1");
}

#[test]
fn a_value_with_a_forbidden_character_is_an_error() {
    let mut element = Element::new("a");
    let error = element.try_set_attr("b", "x\u{1}y").unwrap_err();
    assert_eq!(
        error.to_string(),
        "the value \"x\\u{1}y\" has the character '\\u{1}', which XML does not allow"
    );
    assert!(element.try_set_text("\u{0}").is_err());
    for path in ["@b", "c", "c/@d"] {
        let error = element.set(path, "\u{1}").unwrap_err();
        assert!(matches!(error.kind, PathErrorKind::Value(_)), "{error}");
    }
    assert!(element.set_if_absent("@b", "\u{1}").is_err());
    assert!(element.ensure("c[@d='\u{1}']").is_err());
    assert_eq!(element.render(), "<a/>");
    element.try_set_attr("b", "\t\u{1F980}").unwrap();
    element.try_set_text("text").unwrap();
    assert_eq!(element.check_values(), Ok(()));
}

#[test]
fn a_replaced_character_is_found_until_it_is_overwritten() {
    let mut document = Document::parse("<domain><devices><disk/></devices></domain>").unwrap();
    let devices = document.ensure("devices").unwrap();
    devices.append(Element::new("shmem").with_attr("name", "a\u{1}"));
    let error = document.root().check_values().unwrap_err();
    assert_eq!(
        error.to_string(),
        "the attribute name of <shmem> was set to a text with a character that XML does not allow: it is now \"a\u{fffd}\""
    );
    assert_eq!(document.clone().root().check_values(), Err(error));
    let shmem = document.find_mut("devices/shmem").unwrap().unwrap();
    shmem.set_attr("name", "a");
    assert_eq!(document.root().check_values(), Ok(()));
    shmem_text(&mut document, "\u{ffff}");
    assert!(document.root().check_values().is_err());
    document.root_mut().remove("devices/shmem").unwrap();
    assert_eq!(document.root().check_values(), Ok(()));
}

fn shmem_text(document: &mut Document, text: &str) {
    let shmem = document.find_mut("devices/shmem").unwrap().unwrap();
    shmem.set_text(text);
}

#[test]
fn a_replacement_character_of_the_document_is_no_error() {
    let mut document = Document::parse("<a b='\u{fffd}'>\u{fffd}</a>").unwrap();
    document.root_mut().set_attr("c", "\u{fffd}");
    assert_eq!(document.root().check_values(), Ok(()));
}
