//! Changes that paths with conditions permit.

use super::*;

fn conditioned(paths: &[&str]) -> Vec<ConditionedPath> {
    let parsed = paths.iter().map(|path| match path.starts_with('{') {
        true => serde_json::from_str(path).unwrap(),
        false => ConditionedPath::parse(path).unwrap(),
    });
    parsed.collect()
}

/// The reason of the first refusal between two domains; `None` if all changes are granted.
fn refused(paths: &[&str], before: &str, after: &str) -> Option<String> {
    let paths = conditioned(paths);
    let [before, after] = [before, after].map(|xml| Document::parse(xml).unwrap());
    let changes = diff(&before, &after);
    assert!(!changes.is_empty());
    let mut checker = Checker::new(&paths, &before, &after);
    changes
        .iter()
        .find_map(|change| match checker.permits(change) {
            Permission::Granted { .. } => None,
            Permission::Refused(Refusal {
                reason: RefusalReason::ConditionNotMet { reason, .. },
                ..
            }) => Some(reason),
            Permission::Refused(other) => Some(format!("{:?}", other.reason)),
        })
}

#[track_caller]
fn check(paths: &[&str], before: &str, cases: &[(&str, Option<&str>)]) {
    for (after, expected) in cases {
        let found = refused(paths, before, after);
        let is_expected = match (&found, expected) {
            (None, None) => true,
            (Some(found), Some(expected)) => found.contains(expected),
            _ => false,
        };
        assert!(is_expected, "{paths:?} {after}: {found:?}");
    }
}

const LOG_BELOW: &str = r#"{"path": "/domain/devices/serial/log/@file", "below": "/logs"}"#;

#[test]
fn a_log_file_is_granted_below_a_directory() {
    let own = "<serial type='pty'><target port='0'/><log file='/run/own' append='on'/></serial>";
    let devices = |content: &str| format!("<domain><devices>{content}</devices></domain>");
    let before = devices(own);
    let with = |more: &str| devices(&format!("{own}{more}"));
    let second = |log: &str| {
        with(&format!(
            "<serial type='pty'><target port='1'/>{log}</serial>"
        ))
    };
    let cases = [
        (second("<log file='/logs/vm'/>"), None),
        (second("<log file='/logs/a/b' append='on'/>"), None),
        (second("<log append='on'/>"), None),
        (second("<log file='/logs/../etc/x'/>"), Some("`..`")),
        (
            second("<log file='/etc/x'/>"),
            Some("\"/etc/x\" is not below /logs"),
        ),
        (second("<log file='&#47;etc&#47;x'/>"), Some("is not below")),
        (second("<log file=''/>"), Some("not an absolute path")),
        // Of attributes that libvirt takes for the same, one is dangerous by its prefix.
        (
            second("<log file='/logs/a' x:file='/etc/x' xmlns:x='u'/>"),
            Some("HostPath"),
        ),
        (
            second("<log file='/logs/a'/><log file='/etc/x'/>"),
            Some("is not below"),
        ),
        // The domain's own log is there to stay, or becomes one of the directory.
        (before.replace("/run/own", "/logs/own"), None),
        (
            before.replace("/run/own", "/run/other"),
            Some("is not below"),
        ),
        (before.replace(" file='/run/own'", ""), Some("removed")),
        (
            before.replace("<log file='/run/own' append='on'/>", ""),
            Some("removed"),
        ),
        (devices("<x/>"), Some("")),
        // The same file under another device.
        (
            with("<console type='pty'><log file='/logs/a'/></console>"),
            Some("NoPattern"),
        ),
        // Other dangers of the new device.
        (
            with("<serial type='file'><source path='/logs/a'/></serial>"),
            Some("Source"),
        ),
    ];
    let cases: Vec<(&str, Option<&str>)> = cases
        .iter()
        .map(|(after, expected)| (after.as_str(), *expected))
        .collect();
    check(&["/domain/devices/serial/**", LOG_BELOW], &before, &cases);
}

#[test]
fn the_text_of_an_element_is_its_value() {
    let at_most = r#"{"path": "/domain/iothreads", "at-most": 4}"#;
    let domain = |content: &str| format!("<domain>{content}</domain>");
    let before = domain("<iothreads>1</iothreads>");
    for (content, expected) in [
        ("<iothreads>4</iothreads>", None),
        ("<iothreads><![CDATA[3]]></iothreads>", None),
        ("<iothreads>&#51;</iothreads>", None),
        ("<iothreads>5</iothreads>", Some("5 is more than 4")),
        (
            "<iothreads>1<!-- -->9</iothreads>",
            Some("19 is more than 4"),
        ),
        ("<iothreads>1<x>9</x></iothreads>", Some("NoPattern")),
        ("<iothreads><x/>2</iothreads>", Some("")),
        ("<iothreads> 2</iothreads>", Some("is not a number")),
        ("<iothreads/>", Some("is not a number")),
        ("", Some("removed")),
        ("<iothreads x='1'>2</iothreads>", Some("NoPattern")),
        (
            "<iothreads>1</iothreads><iothreads>9</iothreads>",
            Some("more than 4"),
        ),
    ] {
        check(&[at_most], &before, &[(&domain(content), expected)]);
    }
    check(
        &[at_most],
        "<domain/>",
        &[
            (&before, None),
            (&domain("<iothreads>9</iothreads>"), Some("more than 4")),
        ],
    );
}

#[test]
fn a_path_without_a_condition_permits_any_value() {
    let title = |text: &str| format!("<domain><title>{text}</title></domain>");
    let one_of = r#"{"path": "/domain/title", "one-of": ["a"]}"#;
    let other = r#"{"path": "/domain/title", "one-of": ["b"]}"#;
    check(
        &[one_of, other],
        &title("x"),
        &[
            (&title("a"), None),
            (&title("b"), None),
            (&title("c"), Some("one of \"a\"")),
        ],
    );
    check(
        &[one_of, "/domain/title"],
        &title("x"),
        &[(&title("c"), None), ("<domain/>", None)],
    );
    check(&[one_of, "/domain/**"], &title("x"), &[(&title("c"), None)]);
}

#[test]
fn conditions_change_nothing_about_what_must_be_named() {
    let graphics = |listen: &str| {
        format!("<domain><devices><graphics type='vnc' listen='{listen}'/></devices></domain>")
    };
    let all =
        r#"{"path": "/domain/devices/graphics/@listen", "one-of": ["127.0.0.1", "10.0.0.1"]}"#;
    check(
        &[all],
        &graphics("127.0.0.1"),
        &[
            (&graphics("10.0.0.1"), None),
            (&graphics("0.0.0.0"), Some("is not one of")),
        ],
    );
    // Without the attribute libvirt takes its own default.
    let without = "<domain><devices><graphics type='vnc'/></devices></domain>";
    check(
        &[all],
        &graphics("127.0.0.1"),
        &[(without, Some("removed"))],
    );
    check(
        &["/domain/devices/graphics/**", all],
        "<domain><devices/></domain>",
        &[(without, Some("no text or value"))],
    );
    let name = r#"{"path": "/domain/name", "one-of": ["a"]}"#;
    check(
        &[name],
        "<domain/>",
        &[("<domain><name>a</name></domain>", Some("Reserved"))],
    );
    let wildcard = r#"{"path": "/domain/devices/*/@file", "below": "/logs"}"#;
    check(
        &[wildcard],
        "<domain><devices><filesystem/></devices></domain>",
        &[(
            "<domain><devices><filesystem file='/logs/a'/></devices></domain>",
            Some("Filesystem"),
        )],
    );
}

#[test]
fn a_refusal_has_no_pattern_to_add() {
    let [before, after] =
        ["<domain/>", "<domain><title>b</title></domain>"].map(|xml| Document::parse(xml).unwrap());
    let paths = conditioned(&[r#"{"path": "/domain/title", "one-of": ["a"]}"#]);
    let changes = diff(&before, &after);
    let Permission::Refused(refusal) = permits(&paths, &changes[0], &before, &after) else {
        panic!("{changes:?}");
    };
    assert_eq!(
        (refusal.path.as_str(), refusal.suggested_pattern),
        ("/domain/title", None)
    );
}

#[test]
fn long_values_are_charged_before_they_are_compared() {
    let value = "a".repeat(1 << 20);
    let after = Document::parse(&format!("<domain><title>{value}</title></domain>")).unwrap();
    let before = Document::parse("<domain/>").unwrap();
    let many = vec![r#"{"path": "/domain/title", "one-of": ["a"]}"#; 256];
    let paths = conditioned(&many);
    let budget = Rc::new(Budget::of_steps(1 << 20));
    let mut checker = Checker::within(&paths, &before, &after, Rc::clone(&budget));
    for change in diff(&before, &after) {
        checker.permits(&change);
    }
    assert!(budget.exhausted().is_some());
}
