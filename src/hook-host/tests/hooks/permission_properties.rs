//! Properties of the permission of changes, on random documents and edits.

#[path = "../../../domain-xml/tests/generated_documents/mod.rs"]
mod generated_documents;

use domain_xml::host::diff;
use domain_xml::{Document, Element};
use generated_documents::hooked;
use hook_host::ConditionedPath;
use hook_host::policy::permission::{self, Checker, Permission, RefusalReason};
use proptest::prelude::*;

fn pattern(path: &str) -> ConditionedPath {
    domain_xml::PathPattern::parse(path).unwrap().into()
}

fn conditioned(json: &str) -> ConditionedPath {
    serde_json::from_str(json).unwrap()
}

fn is_granted(paths: &[ConditionedPath], before: &Document, after: &Document) -> bool {
    let mut checker = Checker::new(paths, before, after);
    let changes = diff(before, after);
    changes
        .iter()
        .all(|change| matches!(checker.permits(change), Permission::Granted { .. }))
}

/// Conditions on what random documents have, with the path of each.
const CONDITIONED: &[&str] = &[
    r#"{"path": "/domain/**/@file", "one-of": ["a"]}"#,
    r#"{"path": "/domain/disk/@name", "matches": "[ab]"}"#,
    r#"{"path": "/domain/*/target/@dev", "one-of": ["b", "vda"]}"#,
    r#"{"path": "/domain/disk", "matches": ".*"}"#,
    r#"{"path": "/domain/entry", "one-of": ["", "a"]}"#,
];

/// The domain whose serial devices hooks log: the first logs to a file of KubeVirt's.
const SERIAL: &str = "<domain><devices><serial type='pty'><target port='0'/><log file='/run/own'/></serial>\
    <console type='pty'/></devices></domain>";
const FILES: &[&str] = &[
    "/logs/a",
    "/logs/b/c",
    "/etc/passwd",
    "/logs/../etc/passwd",
    "/logs",
    "",
    "logs/a",
    "/run/own",
];

/// One edit of a hook: a kind of edit, a device, and a file.
type LogEdit = (usize, usize, usize);

fn edit_log(domain: &mut Document, (kind, device, file): LogEdit) {
    let devices = domain.root_mut().child_mut("devices").unwrap();
    let count = devices.children().count();
    let file = FILES[file];
    let serial = |port: &str| {
        let log = Element::new("log").with_attr("file", file);
        let target = Element::new("target").with_attr("port", port);
        Element::new("serial")
            .with_attr("type", "pty")
            .with_child(target)
            .with_child(log)
    };
    if kind == 0 || count == 0 {
        devices.append(serial(&count.to_string()));
        return;
    }
    let at = device % count;
    let mut children: Vec<Element> = devices.children().cloned().collect();
    match kind {
        1 => drop(children[at].set("log/@file", file)),
        2 => drop(children[at].remove("log/@file")),
        3 => drop(children.remove(at)),
        4 => children.push(children[at].clone()),
        5 => {
            let moved = children.remove(at);
            children.insert(0, moved);
        }
        6 => children[at] = serial("0"),
        7 => {
            // Another name for a device with its log.
            let log = children[at].child("log").cloned();
            let other = if children[at].tag_name() == "serial" {
                "console"
            } else {
                "serial"
            };
            let renamed = Element::new(other).with_attr("type", "pty");
            children[at] = match log {
                Some(log) => renamed.with_child(log),
                None => renamed,
            };
        }
        8 => drop(children[at].append(Element::new("log").with_attr("file", file))),
        _ => drop(children[at].set("protocol/@type", "raw")),
    }
    let mut all = Element::new("devices");
    for child in children {
        all.append(child);
    }
    let root = domain.root_mut();
    root.remove_child("devices");
    root.append(all);
}

/// The files of all logs of the domain.
fn log_files(domain: &Document) -> Vec<String> {
    let elements = domain.find_all("**").unwrap();
    let mut files: Vec<String> = elements
        .iter()
        .filter_map(|element| Some(element.attr("file")?.into_owned()))
        .collect();
    files.sort();
    files
}

/// Each kind of edit is granted with a value that meets the condition, so that the properties are about something.
#[test]
fn a_hook_logs_below_its_directory() {
    let paths = log_grants();
    for (kind, file, expected) in [
        (0, 0, true),
        (0, 2, false),
        (1, 0, true),
        (1, 1, true),
        (1, 2, false),
        (1, 3, false),
        (2, 0, false),
        (3, 0, false),
        (4, 0, false),
        (6, 0, true),
        (6, 2, false),
        (9, 0, true),
    ] {
        let before = Document::parse(SERIAL).unwrap();
        let mut after = before.clone();
        edit_log(&mut after, (kind, 0, file));
        assert_eq!(
            is_granted(&paths, &before, &after),
            expected,
            "{kind} {}",
            after.render()
        );
    }
}

fn log_grants() -> Vec<ConditionedPath> {
    vec![
        pattern("/domain/devices/**"),
        conditioned(r#"{"path": "/domain/devices/serial/log/@file", "below": "/logs"}"#),
        conditioned(r#"{"path": "/domain/devices/console/log/@file", "one-of": ["/logs/a"]}"#),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_permitted_without_a_pattern((before, after) in hooked()) {
        let mut checker = Checker::new(&[], &before, &after);
        for change in diff(&before, &after) {
            let refused = matches!(checker.permits(&change), Permission::Refused(_));
            prop_assert!(refused, "{:?}", change);
        }
    }

    #[test]
    fn the_widest_pattern_permits_all_but_dangerous_and_reserved_changes((before, after) in hooked()) {
        let all = [pattern("/domain/**")];
        let mut checker = Checker::new(&all, &before, &after);
        for change in diff(&before, &after) {
            let dangers = checker.dangers(&change);
            match checker.permits(&change) {
                Permission::Granted { by } => {
                    prop_assert_eq!(by, vec![0]);
                    prop_assert_eq!(dangers, vec![], "{:?}", change);
                }
                Permission::Refused(refusal) => match refusal.reason {
                    RefusalReason::Dangerous(_) => prop_assert!(!dangers.is_empty(), "{:?}", change),
                    RefusalReason::Reserved(_) => prop_assert_eq!(refusal.suggested_pattern, None),
                    other => prop_assert!(false, "{:?} {:?}", other, change),
                },
            }
        }
    }

    #[test]
    fn suggested_pattern_permits_the_refused_change((before, after) in hooked()) {
        for change in diff(&before, &after) {
            let mut patterns = Vec::new();
            let mut suggestions = Vec::new();
            // As an operator would, add the suggested pattern of each refusal.
            for _ in 0..100 {
                let Permission::Refused(refusal) = permission::permits(&patterns, &change, &before, &after) else {
                    break;
                };
                let Some(suggested_pattern) = refusal.suggested_pattern else {
                    break;
                };
                prop_assert!(!suggestions.contains(&(refusal.path.clone(), suggested_pattern.clone())), "{} {}", refusal.path, suggested_pattern);
                suggestions.push((refusal.path, suggested_pattern.clone()));
                patterns.push(pattern(&suggested_pattern));
            }
        }
    }

    #[test]
    fn more_patterns_never_permit_less((before, after) in hooked(), pick in any::<prop::sample::Index>()) {
        const PATTERNS: &[&str] = &["/domain/os/**", "/domain/disk[target/@dev='vda']/**", "**/driver", "/domain/*/@dev", "/domain/emulator/**", "/domain/boot[1]"];
        let one = vec![pattern(PATTERNS[pick.index(PATTERNS.len())])];
        let all: Vec<ConditionedPath> = PATTERNS.iter().map(|path| pattern(path)).collect();
        for change in diff(&before, &after) {
            if let Permission::Granted { .. } = permission::permits(&one, &change, &before, &after) {
                let granted = matches!(permission::permits(&all, &change, &before, &after), Permission::Granted { .. });
                prop_assert!(granted, "{:?}", change);
            }
        }
    }

    #[test]
    fn a_condition_never_permits_more((before, after) in hooked(), pick in any::<prop::sample::Index>()) {
        let with = conditioned(CONDITIONED[pick.index(CONDITIONED.len())]);
        let without = ConditionedPath { condition: None, ..with.clone() };
        let all = pattern("/domain/**");
        for change in diff(&before, &after) {
            let granted = |paths: &[ConditionedPath]| {
                matches!(permission::permits(paths, &change, &before, &after), Permission::Granted { .. })
            };
            prop_assert!(!granted(std::slice::from_ref(&with)) || granted(std::slice::from_ref(&without)), "{:?}", change);
            prop_assert!(!granted(&[all.clone(), with.clone()]) || granted(&[all.clone(), without.clone()]), "{:?}", change);
        }
    }

    /// Whatever several hooks edit in whatever order, one after the other, what is granted writes no other file.
    #[test]
    fn a_value_that_violates_a_condition_is_never_written(
        hooks in prop::collection::vec(
            prop::collection::vec((0..10_usize, 0..8_usize, 0..FILES.len()), 1..4),
            1..6,
        )
    ) {
        let paths = log_grants();
        let mut domain = Document::parse(SERIAL).unwrap();
        for edits in hooks {
            let mut after = domain.clone();
            for edit in edits {
                edit_log(&mut after, edit);
            }
            if is_granted(&paths, &domain, &after) {
                domain = after;
            }
        }
        let foreign: Vec<String> =
            log_files(&domain).into_iter().filter(|file| !["/logs/a", "/logs/b/c"].contains(&file.as_str())).collect();
        prop_assert!(foreign.is_empty() || foreign == ["/run/own"], "{}", domain.render());
    }

    /// The same for random documents: of the values that violate the condition there are no more than before.
    #[test]
    fn granted_edits_of_random_documents_add_no_violating_value((before, after) in hooked()) {
        let paths = [pattern("/domain/**"), conditioned(CONDITIONED[0])];
        if is_granted(&paths, &before, &after) {
            let violating = |document: &Document| {
                let mut files = log_files(document);
                files.retain(|file| file != "a");
                files
            };
            let mut old = violating(&before);
            for file in violating(&after) {
                let known = old.iter().position(|other| *other == file);
                prop_assert!(known.is_some(), "{}", file);
                known.map(|at| old.remove(at));
            }
        }
    }
}
