//! Properties of grants, limits and the parsers of policies.

use super::*;
use crate::ConditionedPath;
use crate::policy::PolicyError;

const BEFORE: &str = "<domain type='kvm'><title>a</title><sysinfo type='smbios'><x>1</x></sysinfo>\
    <devices><disk><target dev='vda'/><driver name='qemu'/></disk></devices></domain>";

/// Edits of [`BEFORE`] (old and new text), and whether each is dangerous.
const EDITS: [(&str, &str, bool); 7] = [
    ("<title>a", "<title>b", false),
    ("<x>1", "<x>2", false),
    ("type='smbios'", "type='other'", true),
    ("name='qemu'", "name='qemu' queues='4'", false),
    ("<target", "<source file='/etc/shadow'/><target", true),
    ("<devices>", "<devices><emulator>/bin/sh</emulator>", true),
    ("<sysinfo type='smbios'><x>1</x></sysinfo>", "", false),
];

/// Patterns, of which the last two name dangerous nodes.
const PATTERNS: [&str; 8] = [
    "/domain/**",
    "/domain/title",
    "/domain/sysinfo/**",
    "/domain/sysinfo/@type",
    "/domain/devices/**",
    "/domain/devices/disk[target/@dev='vda']/driver/@queues",
    "/domain/devices/disk/source/**",
    "/domain/devices/emulator",
];

/// Whether a grant permits an edit of [`EDITS`].
fn permits(grant: &Grant, edit: usize) -> bool {
    let (from, to, _) = EDITS[edit];
    let before = Document::parse(BEFORE).unwrap();
    let after = Document::parse(&BEFORE.replace(from, to)).unwrap();
    let changes = diff(&before, &after);
    assert!(!changes.is_empty());
    let budget = Rc::new(Budget::unlimited());
    grant.check(&changes, &before, &after, &budget).is_ok()
}

/// A grant of one layer with some of [`PATTERNS`].
fn grant_of(patterns: &[usize]) -> Grant {
    let paths = patterns
        .iter()
        .map(|n| ConditionedPath::parse(PATTERNS[*n]).unwrap());
    Grant::new(vec![Layer::new(paths.collect(), String::new())])
}

/// Some of [`PATTERNS`] as a YAML list.
fn yaml_list(patterns: &[usize]) -> String {
    let quoted: Vec<String> = patterns
        .iter()
        .map(|n| format!("\"{}\"", PATTERNS[*n]))
        .collect();
    format!("[{}]", quoted.join(", "))
}

fn some_patterns() -> impl Strategy<Value = Vec<usize>> {
    some_of(0..PATTERNS.len())
}

/// Indices of some of [`PATTERNS`].
fn some_of(patterns: std::ops::Range<usize>) -> impl Strategy<Value = Vec<usize>> {
    proptest::collection::vec(patterns, 0..4)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// A change is permitted only if every layer permits it.
    #[test]
    fn a_grant_is_the_intersection(
        wishes in some_patterns(),
        owner in proptest::option::of(some_patterns()),
        operator in proptest::option::of(some_of(0..6)),
        dangerous in some_of(6..PATTERNS.len()),
        edit in 0..EDITS.len(),
    ) {
        let description = format!(r#"{{"wishes":{{"paths":{}}}}}"#, yaml_list(&wishes));
        let yaml = owner.as_ref().map(|patterns| format!("allow: {{paths: {}}}\n", yaml_list(patterns)));
        let paths = operator.as_ref().map(|patterns| format!("paths: {}, ", yaml_list(patterns))).unwrap_or_default();
        let policy = format!("allow: {{{paths}dangerous: {}}}\n", yaml_list(&dangerous));
        if let Ok(settings) = resolve_texts(&description, yaml.as_deref(), Some(&policy)) {
            let is_dangerous = EDITS[edit].2;
            let all_permit = permits(&grant_of(&wishes), edit)
                && owner.as_ref().is_none_or(|patterns| permits(&grant_of(patterns), edit))
                && operator.as_ref().is_none_or(|patterns| {
                    permits(&grant_of(&[patterns.as_slice(), &dangerous].concat()), edit)
                })
                && (!is_dangerous || permits(&grant_of(&[&[0], dangerous.as_slice()].concat()), edit));
            prop_assert_eq!(permits(&settings.grant, edit), all_permit);
            // Without the operator no dangerous change is permitted.
            if let Ok(without_operator) = resolve_texts(&description, yaml.as_deref(), None) {
                prop_assert!(!is_dangerous || !permits(&without_operator.grant, edit));
            }
        }
    }

    /// Limits are at most the cap, or the hook does not run.
    #[test]
    fn limits_do_not_exceed_caps(set in 1_usize..512, cap in 1_usize..512) {
        let yaml = format!("memory: {set}Mi\n");
        let policy = format!("limits: {{memory: {cap}Mi}}\n");
        match resolve_texts("{}", Some(&yaml), Some(&policy)) {
            Ok(settings) => prop_assert_eq!(settings.limits.memory, set << 20),
            Err(_) => prop_assert!(set > cap),
        }
        let settings = resolve_texts("{}", None, Some(&policy)).unwrap();
        prop_assert!(settings.limits.memory <= cap << 20);
    }

    /// Every refusal has a position in the text.
    #[test]
    fn no_text_makes_the_parsers_panic(text in texts()) {
        // A line of YAML ends with CR, LF or both.
        let lines = text.matches(['\r', '\n']).count() as u64 + 2;
        for refused in [
            HookYaml::parse(Path::new("h"), &text).err(),
            OperatorPolicy::parse(Path::new("p"), &text).err(),
        ] {
            match refused {
                None => {}
                Some(PolicyError::Wrong { line, column, .. }) => {
                    prop_assert!((1..=lines).contains(&line) && column >= 1, "{line}:{column} {text:?}");
                }
                Some(other) => prop_assert!(false, "{other}"),
            }
        }
    }

    /// A tag before any key or value of a valid policy is refused at its line.
    #[test]
    fn a_tag_is_refused_at_its_line(at in 0..VALID_POLICY.len(), on_value in proptest::bool::ANY, tag in tags()) {
        let mut lines: Vec<String> = VALID_POLICY.iter().map(|line| (*line).to_owned()).collect();
        let line = &lines[at];
        let key = line.find(|c: char| !" -".contains(c)).unwrap();
        let value = line.find(": ").map_or(key, |colon| colon + 2);
        let (before, after) = line.split_at(if on_value { value } else { key });
        lines[at] = format!("{before}{tag}{after}");
        let error = OperatorPolicy::parse(Path::new("p"), &lines.join("\n")).unwrap_err().to_string();
        prop_assert!(error.starts_with(&format!("p:{}:", at + 1)), "{error}");
        prop_assert!(error.contains("is not accepted: write the value itself"), "{error}");
    }

    /// Whatever the owner's `hook.yaml` says, a final hook runs at its own points and priorities, within the default limits
    /// at least, and its failure stops the VM; or it does not run.
    #[test]
    fn a_hook_yaml_does_not_weaken_a_final_hook(
        key in prop_oneof![
            Just("priority: 7"), Just("hookPoints: []"), Just("hookPoints: [{name: Shutdown}]"), Just("failurePolicy: Ignore"),
            Just("failurePolicy: Fail"), Just("deadline: 1s"), Just("deadline: 3s"), Just("memory: 16Mi"), Just("memory: 128Mi"),
            Just("config: {key: x}"), Just("allow: {paths: [/domain/**]}"), Just("allow: {pod: []}"), Just("log: 1Ki"),
        ],
        is_final in proptest::bool::ANY,
    ) {
        let digest = "d".repeat(64);
        let policy = format!("rules: [{{digests: [{digest}], final: {is_final}}}]\n");
        let plain = resolve_texts(PLAIN_DESCRIPTION, None, Some(&policy)).unwrap();
        prop_assert_eq!(plain.final_rule.is_some(), is_final);
        match resolve_texts(PLAIN_DESCRIPTION, Some(key), Some(&policy)) {
            Ok(settings) if is_final => {
                prop_assert_eq!(settings.hook_points, plain.hook_points);
                prop_assert_eq!(settings.failure_policy, FailurePolicy::Fail);
                prop_assert!(settings.limits.call_deadline >= plain.limits.call_deadline);
                prop_assert!(settings.limits.memory >= plain.limits.memory && settings.limits.log >= plain.limits.log);
                prop_assert!(settings.config.is_empty());
            }
            Ok(_) => {}
            Err(error) => prop_assert!(is_final, "{error}"),
        }
    }

    /// A single mistake in a valid policy is refused at its line.
    #[test]
    fn a_mistake_is_refused_at_its_line(at in 0..VALID_POLICY.len(), mistake in 0..3_usize) {
        let mut lines: Vec<String> = VALID_POLICY.iter().map(|line| (*line).to_owned()).collect();
        prop_assert!(OperatorPolicy::parse(Path::new("p"), &lines.join("\n")).is_ok());
        let (indent, rest) = lines[at].split_at(lines[at].len() - lines[at].trim_start().len());
        lines[at] = match mistake {
            0 => format!("{indent}x{rest}"),
            1 => format!("{indent}{rest} [["),
            _ => format!("{indent}{rest}\n{indent}{rest}"),
        };
        match OperatorPolicy::parse(Path::new("p"), &lines.join("\n")) {
            Err(PolicyError::Wrong { line, .. }) => {
                let expected = at as u64 + 1;
                // An unterminated list is reported in a later line.
                prop_assert!(line >= expected && (mistake == 1 || line <= expected + 1), "{line} {expected}");
            }
            other => prop_assert!(false, "{other:?}"),
        }
    }
}

/// The lines of a valid policy, of which none may stand twice.
const VALID_POLICY: [&str; 14] = [
    "digests: Pinned",
    "sidecars: Forbid",
    "failurePolicies: [Fail]",
    "limits:",
    "  deadline: 1s",
    "  memory: 32Mi",
    "allow:",
    "  paths: [/domain/title]",
    "  dirs: [/etc/hook]",
    "rules:",
    "  - final: true",
    "    digests: [2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae]",
    "    namespaces: [infra]",
    "deniedDigests: [fcde2b2edba56bf408601fb721fe9b5c338d10ee429ea04fae5511b68fbf8fb9]",
];

/// Tags in each of their notations.
fn tags() -> impl Strategy<Value = &'static str> {
    prop_oneof![
        Just("!!str "),
        Just("!!binary "),
        Just("!include "),
        Just("!local "),
        Just("! "),
        Just("!<tag:yaml.org,2002:str> "),
        Just("!<!x> "),
    ]
}

/// Arbitrary texts, and texts that resemble a policy.
fn texts() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        Just("allow"),
        Just("rules"),
        Just("limits"),
        Just("paths"),
        Just("dirs"),
        Just("digests"),
        Just("hookPoints"),
        Just("name"),
        Just("config"),
        Just("memory"),
        Just("final"),
        Just("true"),
        Just("deniedDigests"),
        Just("keys"),
        Just("notBefore"),
        Just("2026-11-01T00:00:00Z"),
        Just("!!str"),
        Just("!<x>"),
        Just("sha256"),
        Just("Fail"),
        Just("OnDefineDomain"),
        Just("/domain/**"),
        Just("64Mi"),
        Just("2s"),
    ];
    let mark = prop_oneof![
        Just(": "),
        Just(":\n  "),
        Just("\n"),
        Just("\n- "),
        Just(", "),
        Just("{"),
        Just("}"),
        Just("["),
        Just("]"),
        Just("'"),
        Just("\""),
        Just("&a "),
        Just("*a"),
        Just("<<: "),
        Just("---\n"),
        Just("!!str "),
        Just("|\n  "),
        Just("\u{feff}"),
        Just("\t"),
        Just("\0"),
    ];
    let policy_like = proptest::collection::vec((word, mark), 0..12).prop_map(|parts| {
        parts
            .iter()
            .map(|(word, mark)| format!("{word}{mark}"))
            .collect()
    });
    prop_oneof![".{0,60}", "[a-z0-9:\\[\\]{}&*!,'\" \n-]{0,80}", policy_like]
}
