use super::*;

fn layer(patterns: &[&str], origin: &str) -> Layer {
    let patterns = patterns
        .iter()
        .map(|text| PathPattern::parse(text).unwrap());
    Layer {
        patterns: patterns.collect(),
        kinds: Vec::new(),
        origin: origin.to_owned(),
    }
}

/// The remedy for the changes from one domain to another.
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
fn wishes_that_lack_a_path_are_named_before_grants_that_lack_it() {
    let layers = || {
        vec![
            layer(&["/domain/os/**"], "operator"),
            layer(&["/domain/**"], "dangerous"),
            layer(&["/domain/name"], "wishes"),
        ]
    };
    let (before, titled) = ("<domain/>", "<domain><title/></domain>");
    assert_eq!(
        remedy(layers(), before, titled),
        "wishes would have to contain \"/domain/title\"; and so would operator"
    );
    let command = "<domain><devices><emulator>/bin/sh</emulator></devices></domain>";
    let from = "<domain><devices/></domain>";
    let text = remedy(layers().split_off(1), from, command);
    assert!(
        text.contains("; wishes would have to contain \"/domain/devices/emulator\"")
            && text.ends_with("; and so would allow.dangerous of the operator's policy"),
        "{text}"
    );
    // Wishes that contain the path are not named.
    let mut declared = layers();
    declared.truncate(2);
    declared.push(layer(&["/domain/title"], "wishes"));
    assert_eq!(
        remedy(declared, before, titled),
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
    let grant = Grant::new(vec![Layer {
        patterns: Vec::new(),
        kinds: Vec::new(),
        origin: "wishes".to_owned(),
    }]);
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
