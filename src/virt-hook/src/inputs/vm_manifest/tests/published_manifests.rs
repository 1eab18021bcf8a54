//! The VMIs of published manifests are those that a cluster with the default configuration makes of them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::only_manifest;

const MANIFESTS: usize = 123;
/// Random in a cluster, unless the manifest has them.
const RANDOM: [&str; 2] = ["spec.domain.firmware.uuid", "spec.domain.firmware.serial"];

fn manifest_paths() -> Vec<PathBuf> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/corpus");
    let entries = std::fs::read_dir(corpus.join("manifest-to-domain-xml")).unwrap();
    let paths = entries.flatten().map(|entry| entry.path());
    let paths = paths.filter(|path| path.to_string_lossy().ends_with(".manifest.yaml"));
    paths.collect()
}

/// A hook reads what it reads in a cluster. A manifest may have zero values that KubeVirt's encoder omits.
#[test]
fn hooks_see_the_spec_of_a_cluster() {
    let mut failures = Vec::new();
    let paths = manifest_paths();
    assert_eq!(paths.len(), MANIFESTS);
    for path in paths {
        let text = std::fs::read_to_string(&path).unwrap();
        let actual: Value = serde_json::from_str(only_manifest(&text).vmi.raw_json()).unwrap();
        let vmi = path
            .to_string_lossy()
            .replace(".manifest.yaml", ".vmi.json");
        let expected: Value = serde_json::from_slice(&std::fs::read(vmi).unwrap()).unwrap();
        compare(
            &actual["spec"],
            &expected["spec"],
            "spec",
            &mut |field, what| {
                if !RANDOM.contains(&field) {
                    failures.push(format!("{}: {field}: {what}", path.display()));
                }
            },
        );
    }
    assert_eq!(failures, [""; 0]);
}

fn compare(actual: &Value, expected: &Value, path: &str, differs: &mut dyn FnMut(&str, String)) {
    match (actual, expected) {
        (Value::Object(actual), Value::Object(expected)) => {
            let names: BTreeSet<_> = actual.keys().chain(expected.keys()).collect();
            for name in names {
                let path = format!("{path}.{name}");
                match (actual.get(name), expected.get(name)) {
                    (Some(actual), Some(expected)) => compare(actual, expected, &path, differs),
                    (Some(actual), None) if is_zero(actual) => {}
                    (actual, expected) => differs(&path, format!("{actual:?} is not {expected:?}")),
                }
            }
        }
        (Value::Array(actual), Value::Array(expected)) if actual.len() == expected.len() => {
            for (index, (actual, expected)) in actual.iter().zip(expected).enumerate() {
                compare(actual, expected, &format!("{path}[{index}]"), differs);
            }
        }
        _ if actual == expected => {}
        _ => differs(path, format!("{actual} is not {expected}")),
    }
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Object(fields) => fields.is_empty(),
        Value::Array(elements) => elements.is_empty(),
        value => value.is_null() || value == "" || value == 0 || value == false,
    }
}
