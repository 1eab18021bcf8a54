//! Domains of hooks that are accepted or refused, and the budget of the check.

use super::*;
use crate::ConditionedPath;
use crate::policy::Layer;

const DOMAIN: &str = "<domain type='kvm'><name>ns_vm</name><uuid>u</uuid><metadata>\
    <kubevirt xmlns='http://kubevirt.io'><uid>7</uid></kubevirt></metadata>\
    <memory unit='b'>1</memory></domain>";

fn refusal(from: &str, to: &str) -> String {
    let xml = DOMAIN.replace(from, to);
    assert_ne!(xml, DOMAIN);
    changes_to(&Domain::parse(DOMAIN).unwrap(), &xml)
        .err()
        .unwrap()
}

fn changes_to(domain: &Domain, xml: &str) -> Result<(Domain, Vec<Change>), String> {
    let budget = Budget::unlimited();
    let after = domain.parse_output(xml, &budget)?;
    let changes = domain.changes(&after, &budget);
    Ok((after, changes))
}

#[test]
fn the_budget_covers_the_text_of_changes() {
    let domain = |value: &str| {
        let disk = |n| format!("<disk><alias name='{n}'/><x a='{value}'/></disk>");
        let disks: String = (0..500).map(disk).collect();
        DOMAIN.replace("</domain>", &(disks + "</domain>"))
    };
    let before = Domain::parse(&domain("1")).unwrap();
    let is_enough = |steps: u64, xml: &str| {
        let budget = Budget::of_steps(steps);
        let _ = before
            .parse_output(xml, &budget)
            .map(|after| before.changes(&after, &budget));
        budget.exhausted().is_none()
    };
    let steps = |xml: &str| {
        let (mut low, mut high) = (0, 1 << 20);
        while low < high {
            let middle = (low + high) / 2;
            match is_enough(middle, xml) {
                true => high = middle,
                false => low = middle + 1,
            }
        }
        low
    };
    let (short, long) = (domain("2"), domain(&"2".repeat(257)));
    let text = (long.len() - short.len()) as u64;
    // The text costs once in the document, and once in the changes.
    assert_eq!(steps(&long) - steps(&short), 2 * text / 16);
}

#[test]
fn attributes_and_texts_of_megabytes_exhaust_the_budget() {
    let attributes: String = (0..255)
        .map(|n| format!(" a{n}='{}'", "x".repeat(15_000)))
        .collect();
    let names = (1..126).map(|depth| vec!["a"; depth].join("/"));
    let predicates: Vec<String> = names.map(|names| format!("[{names}='v']")).collect();
    let mut patterns = vec!["/domain/**".to_owned()];
    patterns.extend(
        predicates
            .chunks(4)
            .map(|four| format!("/domain/**/a{}", four.concat())),
    );
    let texts = "<a>".repeat(124) + &"&lt;".repeat(900_000) + &"</a>".repeat(124);
    for element in [format!("<a{attributes}/>"), texts] {
        let before = Domain::parse(DOMAIN).unwrap();
        let after = DOMAIN.replace("</domain>", &(element + "</domain>"));
        let paths = patterns
            .iter()
            .map(|path| ConditionedPath::parse(path).unwrap());
        let grant = Grant::new(vec![Layer::new(paths.collect(), "a test")]);
        let budget = Rc::new(Budget::of_steps(5_000_000));
        let _ = before.verify(&after, &grant, false, &budget);
        assert_eq!(
            budget.exhausted(),
            Some(domain_xml::host::Exhaustion::Steps)
        );
    }
}

#[test]
fn invalid_domains_and_changed_identities_are_refused() {
    assert!(refusal("ns_vm", "other").contains("/domain/name was \"ns_vm\" and is \"other\""));
    assert!(refusal("<uuid>u</uuid>", "").contains("/domain/uuid"));
    assert!(refusal("<uuid>u", "<name>ns_vm</name><uuid>u").contains("/domain/name"));
    assert!(refusal("<uid>7", "<uid>8").contains("KubeVirt's metadata"));
    assert!(
        refusal(" xmlns='http://kubevirt.io'><uid>7</uid></kubevirt>", "/>").contains("KubeVirt")
    );
    assert!(refusal("<metadata>", "<metadata><kubevirt/>").contains("there were 1"));
    assert!(refusal("</domain>", "").contains("malformed XML"));
    assert!(refusal(DOMAIN, " \n").contains("empty"));
    assert!(refusal(DOMAIN, "<network><name>ns_vm</name></network>").contains("<network>"));
}

/// Of the children of `<metadata>` with the same namespace, libvirt keeps the first, whatever its name is.
#[test]
fn kubevirts_metadata_is_identified_by_its_namespace() {
    for evil in [
        "<evil xmlns='http://kubevirt.io'/>",
        "<x:evil xmlns:x='http://kubevirt.io'><x:uid>8</x:uid></x:evil>",
        "<evil xmlns='http&#58;//kubevirt.io'/>",
    ] {
        let refused = refusal("<metadata>", &format!("<metadata>{evil}"));
        assert!(
            refused.contains("there were 1 of it and are 2"),
            "{refused}"
        );
    }
    let with_prefix = DOMAIN
        .replace("<domain ", "<domain xmlns:x='http://kubevirt.io' ")
        .replace("<metadata>", "<metadata><x:evil/>");
    let before = Domain::parse(DOMAIN).unwrap();
    let refused = changes_to(&before, &with_prefix).err().unwrap();
    assert!(
        refused.contains("there were 1 of it and are 2"),
        "{refused}"
    );
    // libvirt reads no metadata of another namespace.
    let other = refusal("<metadata>", "<metadata xmlns='urn:x'>");
    assert!(other.contains("there were 1 of it and are 0"), "{other}");
    let with_other_metadata = DOMAIN.replace(
        "<metadata>",
        "<metadata><evil xmlns='http://kubevirt.example'/>",
    );
    let (_, changes) = changes_to(&before, &with_other_metadata).unwrap();
    assert_eq!(changes.len(), 1);
}

/// The namespace of each child may be declared in an ancestor's start tag of megabytes.
#[test]
fn namespaces_of_metadata_exhaust_the_budget() {
    let attributes: String = (0..200)
        .map(|n| format!(" a{n}='{}'", "x".repeat(10_000)))
        .collect();
    let children = "<x:a/>".repeat(1000);
    let xml = DOMAIN
        .replace("<domain ", &format!("<domain xmlns:x='urn:x'{attributes} "))
        .replace("<metadata>", &format!("<metadata>{children}"));
    let budget = Budget::of_steps(5_000_000);
    let _ = Domain::parse(DOMAIN).unwrap().parse_output(&xml, &budget);
    assert_eq!(
        budget.exhausted(),
        Some(domain_xml::host::Exhaustion::Steps)
    );
}

#[test]
fn a_second_element_where_libvirt_reads_one_is_refused() {
    let disk = |inside: &str| {
        let end = format!("<devices><disk>{inside}</disk></devices></domain>");
        DOMAIN.replace("</domain>", &end)
    };
    let verify = |before: &str, after: &str| {
        let before = Domain::parse(before).unwrap();
        let budget = Rc::new(Budget::unlimited());
        before
            .verify(after, &Grant::unlimited(), false, &budget)
            .map(|(_, changes)| changes.len())
    };
    let real = disk("<driver name='qemu' type='qcow2'/>");
    let hidden = disk("<driver name='qemu'/><driver name='qemu' type='qcow2'/>");
    let Err(Rejection::Invalid(error)) = verify(&real, &hidden) else {
        panic!("accepted");
    };
    assert!(
        error.contains("/domain/devices/disk has several <driver>"),
        "{error}"
    );
    for repeated in [
        real.replace("<metadata>", "<metadata/><metadata>"),
        real.replace("<uuid>", "<os/><os/><uuid>"),
    ] {
        assert!(verify(&real, &repeated).is_err(), "{repeated}");
    }
    // A change of another disk does not concern this disk.
    let with_other_disk = real.replace("</disk>", "</disk><disk><driver name='qemu'/></disk>");
    assert_eq!(verify(&real, &with_other_disk).unwrap(), 1);
    // Repeated elements from before the hook are accepted.
    assert_eq!(verify(&hidden, &hidden).unwrap(), 0);
    let titled = hidden.replace("<uuid>", "<title>x</title><uuid>");
    assert_eq!(verify(&hidden, &titled).unwrap(), 1);
}

/// What the domain has already must not stand for what the hook adds beside it.
#[test]
fn old_duplicates_and_numbers_do_not_hide_new_ones() {
    let domain = |devices: &str| {
        DOMAIN.replace(
            "</domain>",
            &format!("<devices>{devices}</devices></domain>"),
        )
    };
    let twice = "<disk><driver/><driver/><target dev='vda'/></disk>";
    let once = "<disk><driver/><target dev='vdb'/></disk>";
    let controller = |index| format!("<controller type='scsi' index='{index}'/>");
    let (large, small) = (controller(999), controller(1));
    for (name, before, after, expected) in [
        (
            "the same elements twice in another disk",
            domain(&format!("{twice}{once}")),
            domain(&format!("{twice}{}", twice.replace("vda", "vdb"))),
            Some("/domain/devices/disk has several <driver>"),
        ),
        (
            "other elements twice",
            domain(&format!("{twice}{once}")),
            domain(&format!("{twice}{once}")).replace("<uuid>", "<os/><os/><uuid>"),
            Some("/domain has several <os>"),
        ),
        (
            "a third element",
            domain(twice),
            domain(&twice.replace("<target", "<driver/><target")),
            Some("/domain/devices/disk has several <driver>"),
        ),
        (
            "one of three elements less",
            domain(&twice.replace("<target", "<driver/><target")),
            domain(twice),
            None,
        ),
        (
            "the other elements of an old pair",
            domain(twice),
            domain(&twice.replace("vda", "vdc")),
            None,
        ),
        (
            "another large number",
            domain(&format!("{large}{small}")),
            domain(&format!("{large}{}", controller(1000))),
            Some("index is \"1000\""),
        ),
        (
            "the same large number again",
            domain(&format!("{large}{small}")),
            domain(&format!("{large}{large}")),
            Some("index is \"999\""),
        ),
        (
            "a large number in another place",
            domain(&large),
            domain(&large).replace("<uuid>", "<vcpu>9999</vcpu><uuid>"),
            Some("/domain/vcpu is \"9999\""),
        ),
        (
            "beside an old large number",
            domain(&format!("{large}{small}")),
            domain(&format!("{large}{}", controller(2))),
            None,
        ),
    ] {
        let before = Domain::parse(&before).unwrap();
        let budget = Rc::new(Budget::unlimited());
        match (
            before.verify(&after, &Grant::unlimited(), false, &budget),
            expected,
        ) {
            (Ok(_), None) => {}
            (Err(Rejection::Invalid(error)), Some(expected)) => {
                assert!(error.contains(expected), "{name}: {error}");
            }
            (Ok(_), Some(_)) => panic!("{name}: accepted"),
            (Err(error), _) => panic!("{name}: {error:?}"),
        }
    }
}

#[test]
fn the_number_of_elements_is_limited() {
    let refusal_with = |count: usize| refusal_of_added(&"<x/>".repeat(count));
    assert!(refusal_with(MAX_ELEMENTS - 7).is_none());
    assert!(
        refusal_with(MAX_ELEMENTS - 6)
            .unwrap()
            .contains("50000 elements")
    );
}

fn refusal_of_added(added: &str) -> Option<String> {
    let xml = DOMAIN.replace("</domain>", &format!("{added}</domain>"));
    changes_to(&Domain::parse(DOMAIN).unwrap(), &xml).err()
}

#[test]
fn changes_are_returned_without_differences_of_notation() {
    let before = Domain::parse(DOMAIN).unwrap();
    let (after, changes) = changes_to(&before, &DOMAIN.replace("'>1<", "'>2<")).unwrap();
    assert_eq!(changes.len(), 1);
    assert!(changes[0].path.starts_with("/domain/memory"), "{changes:?}");
    let requoted = DOMAIN.replace("'>1<", "'>2<").replace('\'', "\"");
    let (_, changes) = changes_to(&after, &requoted).unwrap();
    assert_eq!(changes, []);
    // A sidecar that reads and writes KubeVirt's Go structs gives the metadata a prefix.
    let prefixed = DOMAIN
        .replace("<kubevirt xmlns=", "<k:kubevirt xmlns:k=")
        .replace("<uid>7</uid></kubevirt>", "<k:uid>7</k:uid></k:kubevirt>");
    assert!(prefixed.contains("<k:uid>7"));
    let (_, changes) = changes_to(&before, &prefixed).unwrap();
    assert_eq!(changes, []);
}
