//! The text of a refusal: the layers that refuse a change, and the patterns that would allow it.

use super::*;

fn layer(patterns: &[&str], origin: &str) -> Layer {
    let paths = patterns
        .iter()
        .map(|text| ConditionedPath::parse(text).unwrap());
    Layer::new(paths.collect(), origin)
}

/// The remedy of the refusal of the changes from one domain to another.
fn remedy(layers: Vec<Layer>, before: &str, after: &str) -> String {
    let parse = |xml| Document::parse(xml).unwrap();
    let (before, after) = (parse(before), parse(after));
    let changes = domain_xml::host::diff(&before, &after);
    let grant = Grant::new(layers);
    let budget = Rc::new(Budget::unlimited());
    let checked = grant.check(&changes, &before, &after, &budget);
    let Err(NotGranted::Refused(refused)) = checked else {
        panic!("{checked:?}");
    };
    refused.remedy
}

#[test]
fn the_remedy_names_the_hooks_wishes_first() {
    let operator = || layer(&["/domain/os/**"], "operator");
    let dangerous = || layer(&["/domain/**"], "dangerous");
    let wishes = || layer(&["/domain/name"], "wishes");
    let (before, titled) = ("<domain/>", "<domain><title/></domain>");
    assert_eq!(
        remedy(vec![operator(), dangerous(), wishes()], before, titled),
        "wishes would have to contain \"/domain/title\"; and so would operator"
    );
    let command = "<domain><devices><emulator>/bin/sh</emulator></devices></domain>";
    let from = "<domain><devices/></domain>";
    let text = remedy(vec![dangerous(), wishes()], from, command);
    assert!(
        text.contains("; wishes would have to contain \"/domain/devices/emulator\"")
            && text.ends_with("; and so would allow.dangerous of the operator's policy"),
        "{text}"
    );
    // Wishes that contain the path are not named.
    let wishes_with_title = layer(&["/domain/title"], "wishes");
    let layers = vec![operator(), dangerous(), wishes_with_title];
    assert_eq!(
        remedy(layers, before, titled),
        "operator would have to contain \"/domain/title\""
    );
}

#[test]
fn a_misspelt_element_of_the_hook_is_named() {
    let (from, to) = ("<domain/>", "<domain><tilte/></domain>");
    let text = remedy(vec![layer(&["/domain/title"], "wishes")], from, to);
    assert!(
        text.starts_with("libvirt's domain has no /domain/tilte (as of libvirt 12.8): is it /domain/title? wishes "),
        "{text}"
    );
}

#[test]
fn a_refused_move_names_the_child_and_its_positions() {
    let parse = |xml| Document::parse(xml).unwrap();
    let before = parse("<domain><os><boot dev='hd'/><boot dev='fd'/></os></domain>");
    let after = parse("<domain><os><boot dev='fd'/><boot dev='hd'/></os></domain>");
    let changes = domain_xml::host::diff(&before, &after);
    let grant = Grant::new(vec![Layer::new(Vec::new(), "wishes")]);
    let budget = Rc::new(Budget::unlimited());
    let checked = grant.check(&changes, &before, &after, &budget);
    let Err(NotGranted::Refused(refused)) = checked else {
        panic!("{checked:?}");
    };
    assert_eq!(refused.path, "/domain/os");
    let (before, after) = (refused.before.unwrap(), refused.after.unwrap());
    assert!(
        before.starts_with("/domain/os/") && before.contains(" as child "),
        "{before}"
    );
    assert_ne!(before, after);
}
