//! `render` of manifests that people published: the domain of a default cluster, compared with KubeVirt's.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use domain_xml::{Document, Element};

use super::{differences, text, virt_hook, warnings, xml};

/// Of the corpus: 123 manifests, of which KubeVirt's own conversion has a domain for 104.
const MANIFESTS: usize = 123;
const DOMAINS: usize = 104;

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/corpus/manifest-to-domain-xml")
}

fn file(name: &str) -> PathBuf {
    directory().join(name)
}

/// The names of the manifests.
fn names() -> Vec<String> {
    let entries = fs::read_dir(directory()).unwrap().flatten();
    let names = entries.filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        Some(name.strip_suffix(".manifest.yaml")?.to_owned())
    });
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

/// The domain with the texts that are random in a cluster replaced by `random`, where the expected one has that.
fn with_random_texts(actual: &str, expected: &str) -> String {
    let mut actual = actual.to_owned();
    let (random, own) = (texts(expected), texts(&actual));
    for (name, text) in &random {
        if text == "random"
            && let Some(own) = own.get(name)
        {
            let lengths: Vec<usize> = own.split('-').map(str::len).collect();
            assert_eq!(lengths, [8, 4, 4, 4, 12], "{name} is {own}");
            actual = actual.replace(own.as_str(), text);
        }
    }
    actual
}

/// The texts of SMBIOS entries by name.
fn texts(xml: &str) -> BTreeMap<String, String> {
    fn collect(element: &Element, found: &mut BTreeMap<String, String>) {
        if element.tag_name() == "entry"
            && let Some(name) = element.attr("name")
        {
            found.insert(name.to_string(), element.text());
        }
        for child in element.children() {
            collect(child, found);
        }
    }
    let mut found = BTreeMap::new();
    collect(Document::parse(xml).unwrap().root(), &mut found);
    found
}

/// With the options of a default cluster, and without options.
#[test]
fn published_manifests_give_the_domains_of_a_cluster() {
    let temp_dir = tempfile::tempdir().unwrap();
    let no_options = temp_dir.path().join("none.json");
    fs::write(&no_options, "{}").unwrap();
    let host = file("host.json");
    let names = names();
    assert_eq!(names.len(), MANIFESTS);
    let mut compared = 0;
    let mut failures = Vec::new();
    for name in &names {
        for (kind, options) in [
            ("cluster", &[][..]),
            ("without-options", &["--options", text(&no_options)]),
        ] {
            let manifest = file(&format!("{name}.manifest.yaml"));
            let arguments = ["render", "--vmi", text(&manifest), "--host", text(&host)];
            let output = virt_hook(&[&arguments, options].concat(), b"");
            let Ok(expected) = fs::read_to_string(file(&format!("{name}.{kind}.xml"))) else {
                // KubeVirt has no domain without the devices of a node: ours has made-up ones or none, and says so.
                xml(&output);
                let log = warnings(&output);
                let says = ["made up", "made-up", "not shown"];
                if !says.iter().any(|part| log.contains(part)) {
                    failures.push(format!("{name}, {kind}: {log}"));
                }
                continue;
            };
            compared += 1;
            let actual = with_random_texts(&xml(&output), &expected);
            for difference in differences(&actual, &expected) {
                failures.push(format!("{name}, {kind}: {difference}"));
            }
        }
    }
    assert_eq!(failures, [""; 0]);
    assert_eq!(compared, 2 * DOMAINS);
}
