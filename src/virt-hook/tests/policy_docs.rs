//! Checks docs/policy.md against the parsers that it describes.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};

use domain_xml::host::diff;
use domain_xml::{Document, PathPattern};
use hook_host::ConditionedPath;
use hook_host::policy::permission::{Checker, Permission};
use hook_host::policy::{HookYaml, OperatorPolicy};

fn page(name: &str) -> (PathBuf, String) {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let path = docs.join(name);
    let text = std::fs::read_to_string(&path).unwrap();
    (path, text)
}

/// The YAML blocks of a page.
fn blocks(text: &str) -> Vec<&str> {
    let starts = text.split("\n```yaml\n").skip(1);
    starts
        .map(|rest| rest.split("\n```\n").next().unwrap())
        .collect()
}

fn parse(path: &Path, text: &str) -> Result<(), String> {
    match text.lines().next() {
        Some("# hook.yaml") => HookYaml::parse(path, text).map(drop),
        Some("# hook-policy.yaml") => OperatorPolicy::parse(path, text).map(drop),
        other => panic!("{}: which file is {other:?}?", path.display()),
    }
    .map_err(|error| error.to_string())
}

#[test]
fn every_example_can_be_parsed() {
    let mut read = 0;
    for name in ["policy.md", "threat-model.md"] {
        let (path, text) = page(name);
        for block in blocks(&text) {
            parse(&path, block).unwrap();
            read += 1;
        }
    }
    assert!(read >= 4, "{read}");
}

/// The keys that a parser knows at a position, from its error about an unknown key.
fn known_keys(head: &str, text: &str) -> Vec<String> {
    let refused = parse(Path::new("p"), &format!("{head}\n{text}\n")).unwrap_err();
    let (_, names) = refused.split_once("expected one of ").unwrap();
    names.split(", ").map(str::to_owned).collect()
}

#[test]
fn every_key_has_a_row() {
    let (_, text) = page("policy.md");
    let mut rows = 0;
    for (head, place, yaml) in [
        ("# hook.yaml", "", "no-key: 1"),
        ("# hook.yaml", "hookPoints[].", "hookPoints: [{no-key: 1}]"),
        ("# hook.yaml", "allow.", "allow: {no-key: 1}"),
        ("# hook-policy.yaml", "", "no-key: 1"),
        ("# hook-policy.yaml", "limits.", "limits: {no-key: 1}"),
        ("# hook-policy.yaml", "rules[].", "rules: [{no-key: 1}]"),
        ("# hook-policy.yaml", "", "allow: {no-key: 1}"),
    ] {
        for key in known_keys(head, yaml) {
            let row = format!("\n| `{place}{key}` |");
            let inside = format!("\n| `{place}{key}.");
            assert!(text.contains(&row) || text.contains(&inside), "{row}");
            rows += 1;
        }
    }
    assert!(rows >= 32, "{rows}");
}

#[test]
fn documented_limits_are_enforced() {
    for (most, more) in [
        ("deadline: 15s", "deadline: 15001ms"),
        ("memory: 512Mi", "memory: 536870913"),
        ("output: 64Mi", "output: 67108865"),
        ("log: 1Mi", "log: 1048577"),
    ] {
        for (text, good) in [(most, true), (more, false)] {
            let owner = parse(Path::new("p"), &format!("# hook.yaml\n{text}\n"));
            let operator = format!("# hook-policy.yaml\nlimits: {{{text}}}\n");
            let operator = parse(Path::new("p"), &operator);
            assert_eq!((owner.is_ok(), operator.is_ok()), (good, good), "{text}");
        }
    }
    for (least, less) in [
        ("deadline: 1ms", "deadline: 0ms"),
        ("memory: 1Mi", "memory: 1048575"),
    ] {
        assert!(parse(Path::new("p"), &format!("# hook.yaml\n{least}\n")).is_ok());
        assert!(parse(Path::new("p"), &format!("# hook.yaml\n{less}\n")).is_err());
    }
}

/// Whether a pattern permits the changes from `before` to `after`, two lists of devices.
fn permits(pattern: &str, before: &str, after: &str) -> bool {
    let domain = |devices: &str| {
        let xml = format!("<domain><devices>{devices}</devices></domain>");
        Document::parse(&xml).unwrap()
    };
    let (before, after) = (domain(before), domain(after));
    let pattern = ConditionedPath::parse(pattern).unwrap();
    let mut checker = Checker::new(std::slice::from_ref(&pattern), &before, &after);
    let changes = diff(&before, &after);
    assert!(!changes.is_empty());
    let granted = |change| matches!(checker.permits(change), Permission::Granted { .. });
    changes.iter().all(granted)
}

#[test]
fn patterns_match_as_documented() {
    let (_, text) = page("policy.md");
    let patterns = text.split("\n```text\n").nth(1).unwrap();
    for line in patterns.split("\n```\n").next().unwrap().lines() {
        let pattern = line.split("  ").next().unwrap();
        PathPattern::parse(pattern).unwrap();
    }
    let interface = "<interface type='ethernet'/>";
    let script = "<interface type='ethernet'><script path='/bin/sh'/></interface>";
    for (pattern, enough) in [
        ("/domain/devices/interface/script/**", true),
        ("/domain/devices/interface/**", false),
        ("/domain/**", false),
    ] {
        assert_eq!(permits(pattern, interface, script), enough, "{pattern}");
    }
    let vnc = |address: &str| format!("<graphics type='vnc' port='5900' listen='{address}'/>");
    assert!(permits("/domain/**", "", &vnc("127.0.0.1")));
    assert!(!permits("/domain/**", "", &vnc("0.0.0.0")));
    let without_address = "<graphics type='vnc' port='5900'/>";
    assert!(!permits("/domain/**", "", without_address));
    assert!(!permits("/domain/**", &vnc("127.0.0.1"), without_address));
    let disk = |queues: &str, bus: &str| {
        format!(
            "<disk><driver name='qemu' queues='{queues}'/><target dev='vda' bus='{bus}'/></disk>"
        )
    };
    let queues = "/domain/devices/disk[target/@dev='vda']/driver/@queues";
    assert!(permits(queues, &disk("1", "virtio"), &disk("2", "virtio")));
    assert!(!permits(queues, &disk("1", "virtio"), &disk("2", "sata")));
}
