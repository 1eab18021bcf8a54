//! Compares the rules with libvirt's schema: every path is dangerous, and every other name was reviewed.

use super::*;

/// Definitions of the schema whose values are paths, devices, directories or addresses of the host.
const PATH_DEFINITIONS: &[&str] = &[
    "absFilePath",
    "filePath",
    "absDirPath",
    "dirPath",
    "deviceName",
    "vmwarePath",
    "dbusAddr",
    "anyURI",
    "unixSocketPath",
    "uri",
    "bridgeMode",
];

/// Definitions of the schema whose values are numbers, or addresses on the guest's own buses.
const NUMBER_DEFINITIONS: &[&str] = &[
    "unsignedInt",
    "unsignedLong",
    "unsignedShort",
    "unsignedByte",
    "positiveInteger",
    "nonNegativeInteger",
    "integer",
    "int",
    "long",
    "short",
    "byte",
    "double",
    "dateTime",
    "uint8",
    "uint16",
    "uint24",
    "uint31",
    "uint32",
    "uint64",
    "hexuint",
    "pciBus",
    "pciSlot",
    "pciFunc",
    "pciDomain",
    "usbPort",
    "usbAddr",
    "usbId",
    "usbClass",
    "usbVersion",
    "usbIdDefault",
    "driveController",
    "driveBus",
    "driveTarget",
    "driveUnit",
    "driveSCSITarget",
    "driveSCSIUnit",
    "virtioserialPort",
    "ccidSlot",
    "spaprvioReg",
    "ccwCssidRange",
    "ccwSsidRange",
    "ccwDevnoRange",
    "cpuset",
    "unit",
    "unitHz",
    "UUID",
    "aliasName",
    "timeDelta",
    "wwn",
    "vcpuId",
];

fn is_dangerous((path, attribute): &Leaf) -> bool {
    let mut open = String::new();
    for step in path {
        open.push_str(&format!("<{}", step.replace('*', "any")));
        if step == "domain" {
            open.push_str(
                " xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0' \
                 xmlns:lxc='http://libvirt.org/schemas/domain/lxc/1.0' \
                 xmlns:xen='http://libvirt.org/schemas/domain/xen/1.0' \
                 xmlns:bhyve='http://libvirt.org/schemas/domain/bhyve/1.0'",
            );
        }
        open.push('>');
    }
    if let Some(attribute) = attribute.as_ref().filter(|name| *name != "*") {
        open.truncate(open.len() - 1);
        open.push_str(&format!(" {attribute}='x'>"));
    }
    let close: String = path
        .iter()
        .rev()
        .map(|step| format!("</{}>", step.replace('*', "any")))
        .collect();
    let document = Document::parse(&(open + &close)).unwrap();
    let kinds = Checker::new(&[], &document, &document).kinds_of_names(true);
    !kinds.is_empty()
}

/// The leaf as `PARENT/ELEMENT@ATTRIBUTE`.
fn leaf_name((path, attribute): &Leaf) -> String {
    let parent = path.len().saturating_sub(2);
    let attribute = attribute
        .as_ref()
        .map_or(String::new(), |name| format!("@{name}"));
    format!("{}{attribute}", path[parent..].join("/"))
}

#[test]
fn every_path_of_libvirts_schema_is_dangerous() {
    let schema = libvirt_schema_for_tests::read();
    let paths = schema.leaves.iter().filter(|(leaf, values)| {
        values
            .types
            .iter()
            .any(|kind| PATH_DEFINITIONS.contains(&kind.as_str()))
            && !is_address(leaf)
    });
    let harmless: BTreeSet<String> = paths
        .clone()
        .filter(|(leaf, _)| !is_dangerous(leaf))
        .map(|(leaf, values)| format!("{} {:?}", leaf_name(leaf), values.types))
        .collect();
    assert!(paths.count() > 100);
    assert_eq!(harmless, BTreeSet::new());
}

/// Whether the leaf is an address on one of the guest's buses.
fn is_address((path, _): &Leaf) -> bool {
    path.last().is_some_and(|last| last == "address")
}

/// The leaves of the schema that are neither dangerous nor numbers, with their types (`<TYPE>`) and values (`=VALUE`).
fn leaves_to_review(schema: &Schema) -> BTreeMap<String, BTreeSet<String>> {
    let mut leaves: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let is_number = |kind: &String| NUMBER_DEFINITIONS.contains(&kind.as_str());
    for (leaf, Values { types, names }) in &schema.leaves {
        if is_address(leaf)
            || (names.is_empty() && types.iter().all(is_number))
            || is_dangerous(leaf)
        {
            continue;
        }
        let values = leaves.entry(leaf_name(leaf)).or_default();
        let kinds = types.iter().filter(|kind| !is_number(kind));
        values.extend(kinds.map(|kind| format!("<{kind}>")));
        values.extend(names.iter().map(|name| format!("={}", name.trim())));
    }
    leaves
}

#[test]
fn every_name_of_libvirts_schema_was_reviewed() {
    let leaves = leaves_to_review(&libvirt_schema_for_tests::read());
    let list: String = leaves
        .iter()
        .map(|(leaf, values)| {
            let values: Vec<&str> = values.iter().map(String::as_str).collect();
            format!("{leaf} {}\n", values.join(" ")).replace(" \n", "\n")
        })
        .collect();
    if let Ok(path) = std::env::var("DANGER_REVIEW_OUT") {
        std::fs::write(path, &list).unwrap();
    }
    let reviewed: BTreeSet<&str> = include_str!("../reviewed_schema_names.txt")
        .lines()
        .filter(|line| !line.starts_with('#'))
        .collect();
    // An older libvirt may have fewer values than were reviewed.
    let is_reviewed = |line: &str| {
        let mut words = line.split(' ');
        let leaf = words.next().unwrap();
        let prefix = format!("{leaf} ");
        let reviewed = reviewed
            .iter()
            .find(|known| **known == leaf || known.starts_with(&prefix));
        reviewed.is_some_and(|known| {
            let known: BTreeSet<&str> = known.split(' ').collect();
            words.all(|word| known.contains(word))
        })
    };
    let not_reviewed: Vec<&str> = list.lines().filter(|line| !is_reviewed(line)).collect();
    assert_eq!(
        not_reviewed,
        Vec::<&str>::new(),
        "not reviewed; write rules, or add them to reviewed_schema_names.txt and raise REVIEWED_LIBVIRT ({REVIEWED_LIBVIRT:?})"
    );
    assert!(leaves.len() > 100);
}
