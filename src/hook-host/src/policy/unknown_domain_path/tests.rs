//! Hints for misspelt paths, and the table of names against the schema of libvirt.

use std::collections::BTreeSet;

use super::*;
use crate::policy::permission::libvirt_schema_for_tests;

fn hint(path: &str) -> Option<String> {
    UnknownPath::of(path).map(|unknown| unknown.to_string())
}

#[test]
fn a_misspelt_path_gets_the_known_one() {
    for (path, unknown, similar) in [
        (
            "/domain/device/hostdev[@type='usb']/**",
            "/domain/device",
            "/domain/devices/hostdev[@type='usb']/**",
        ),
        (
            "/domain/devices/hostdev[@typ='usb']/**",
            "/domain/devices/hostdev[@typ='usb']",
            "/domain/devices/hostdev[@type='usb']/**",
        ),
        (
            "/domain/devices/disk[traget/@dev='vda']/driver/@iothred",
            "/domain/devices/disk[traget/@dev='vda']",
            "/domain/devices/disk[target/@dev='vda']/driver/@iothread",
        ),
        (
            "/domain/hostdev/**",
            "/domain/hostdev",
            "/domain/devices/hostdev/**",
        ),
    ] {
        let expected =
            format!("libvirt's domain has no {unknown} (as of libvirt 12.8): is it {similar}?");
        assert_eq!(hint(path), Some(expected));
    }
    let dissimilar = hint("/domain/warp-drive/**").unwrap();
    assert!(
        dissimilar.starts_with("libvirt's domain has no /domain/warp-drive (as of"),
        "{dissimilar}"
    );
}

#[test]
fn names_that_the_table_cannot_have_are_not_checked() {
    for path in [
        "/domain/**",
        "/domain/**/@queues",
        "/domain/*/anything",
        "/domain/metadata/kubevirt/anything",
        "/domain/metadata/x:y/z/@w",
        "/domain/qemu:commandline/qemu:arg/@value",
        "/domain/devices/disk[2]/driver/@io",
        "/domain/devices/disk[target/@dev='a]/b']/driver/@io",
        "/domain/devices/interface[mac/@address=\"52:54:00:00:00:01\"]/mtu/@size",
        "/domain/sysinfo[@type='smbios']/system/entry[@name='serial']",
        "/domain/os/smbios/@mode",
        "/domain/devices/disk/@*",
        "/domain/memory",
        "",
    ] {
        assert_eq!(hint(path), None, "{path}");
    }
}

#[test]
fn a_long_name_is_not_compared() {
    let long = format!("/domain/{}", "a".repeat(1 << 20));
    assert_eq!(UnknownPath::of(&long).unwrap().similar, None);
}

/// `KNOWN_NAMES_OUT` is the path of a file to which the table and the names of this machine's libvirt are written.
#[test]
fn the_table_has_every_name_of_libvirts_schema() {
    let schema = libvirt_schema_for_tests::read();
    let mut names: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut add = |path: &[String], child: Option<String>| {
        let parent = path.last().cloned().unwrap_or_default();
        names.entry(parent).or_default().extend(child);
    };
    for (path, attribute) in schema.leaves.keys() {
        for (index, child) in path.iter().enumerate() {
            add(&path[..index], Some(child.clone()));
        }
        add(path, attribute.as_ref().map(|name| format!("@{name}")));
    }
    // The names in the counts have no prefixes.
    let steps = schema.leaves.keys().flat_map(|(path, _)| path);
    let prefixed = steps.filter_map(|step| Some(step.split_once(':')?.1));
    let prefixed: BTreeSet<&str> = prefixed.collect();
    for (path, child) in schema.counts.keys() {
        let is_of_domain = path.last().is_some_and(|parent| parent == "domain");
        if !(is_of_domain && prefixed.contains(child.as_str())) {
            add(path, Some(child.clone()));
        }
    }
    names.retain(|parent, _| !parent.contains([':', '*']));
    let is_plain = |name: &&String| !name.contains(':');
    if let Ok(path) = std::env::var("KNOWN_NAMES_OUT") {
        let mut all = names.clone();
        for (parent, children) in &*TABLE {
            let children = children.iter().map(|child| (*child).to_owned());
            all.entry((*parent).to_owned())
                .or_default()
                .extend(children);
        }
        let lines = all.iter().map(|(parent, children)| {
            let children: Vec<_> = children.iter().filter(is_plain).cloned().collect();
            format!("{parent}: {}", children.join(" "))
                .trim_end()
                .to_owned()
                + "\n"
        });
        std::fs::write(path, lines.collect::<String>()).unwrap();
    }
    let missing = names.iter().flat_map(|(parent, children)| {
        let known = TABLE.get(parent.as_str()).cloned().unwrap_or_default();
        let children = children.iter().filter(is_plain);
        let missing = children.filter(move |child| !known.contains(&child.as_str()));
        missing.map(move |child| format!("{parent}/{child}"))
    });
    let missing: Vec<String> = missing.collect();
    assert_eq!(
        missing, [""; 0],
        "add them: KNOWN_NAMES_OUT=FILE writes the table"
    );
    assert!(names.len() > 200, "{}", names.len());
}

#[test]
fn elements_without_attributes_are_known() {
    for (path, expected) in [
        ("/domain/title", false),
        ("/domain/os/loader", true),
        ("/domain/sysinfo[@type='smbios']/system/entry", true),
        ("/domain/cputune", false),
        ("/domain/iothreads", false),
        ("/domain/vcpu", true),
        ("/domain/not-known", true),
        ("/domain/qemu:commandline", true),
    ] {
        assert_eq!(may_have_attributes(path), expected, "{path}");
    }
}
