use std::path::Path;
use std::rc::Rc;

use domain_xml::{Budget, Document, diff};
use proptest::prelude::*;

use super::*;
use crate::HookPoint;
use crate::policy::grant::Layer;

const PLAIN: &str = r#"{"hookPoints":[{"name":"OnDefineDomain","priority":1},{"name":"Shutdown"}],
    "wishes":{"paths":["/domain/title","/domain/sysinfo/**"],"config":["key"]}}"#;
const READER: &str = r#"{"wishes":{"dirs":["/etc/hook"]}}"#;

fn resolve_texts(
    description: &str,
    yaml: Option<&str>,
    operator: Option<&str>,
) -> Result<HookSettings, ResolveError> {
    let description = Description::parse(description).unwrap();
    let digest = "d".repeat(64);
    let identity = ModuleIdentity {
        digest: &digest,
        namespace: "ns",
        signature: &ModuleSignature::unverified("it is not signed"),
        description: &description,
    };
    let yaml = yaml.map(|text| HookYaml::parse(Path::new("h/hook.yaml"), text).unwrap());
    let operator = operator.map(|text| OperatorPolicy::parse(Path::new("p.yaml"), text).unwrap());
    resolve(
        identity,
        &Limits::default(),
        yaml.as_ref(),
        operator.as_ref(),
    )
}

fn refusal(description: &str, yaml: Option<&str>, operator: Option<&str>) -> String {
    resolve_texts(description, yaml, operator)
        .err()
        .unwrap()
        .to_string()
}

fn with(yaml: &str, operator: Option<&str>) -> Result<HookSettings, ResolveError> {
    resolve_texts(PLAIN, Some(&format!("# one line\n{yaml}")), operator)
}

#[test]
fn without_policies_a_hook_gets_what_it_declares() {
    let plain = r#"{"hookPoints":[{"name":"Shutdown","priority":4}],"wishes":{}}"#;
    let settings = resolve_texts(plain, None, None).unwrap();
    assert_eq!(settings.hook_points[0].priority, 4);
    assert_eq!(settings.limits, Limits::default());
    assert_eq!(settings.failure_policy, FailurePolicy::Fail);
    assert!(settings.dirs.is_empty() && settings.config.is_empty());
}

#[test]
fn directories_must_be_allowed_by_the_operator() {
    let owners = Some("allow: {dirs: [/etc/hook, /x]}\n");
    for (operator, place) in [
        (None, "there is none"),
        (Some("{}"), "p.yaml"),
        (Some("allow: {paths: []}\n"), "p.yaml"),
        (Some("allow: {dirs: [/etc/hooks]}\n"), "p.yaml:1:"),
    ] {
        let error = refusal(READER, owners, operator);
        assert!(
            error.contains("\"/etc/hook\"")
                && error.contains("allow.dirs of")
                && error.contains(place),
            "{error}"
        );
    }
    let dirs = |yaml, operator| resolve_texts(READER, yaml, Some(operator)).unwrap().dirs;
    assert_eq!(
        dirs(None, "allow: {dirs: [/etc]}\n"),
        [Path::new("/etc/hook")]
    );
    assert_eq!(
        dirs(owners, "allow: {dirs: [/etc/hook/a, /etc/hook/b, /x]}\n"),
        [Path::new("/etc/hook/a"), Path::new("/etc/hook/b")]
    );
    let narrowed = Some("allow: {dirs: [/etc/hook/a]}\n");
    assert_eq!(
        dirs(narrowed, "allow: {dirs: [/etc]}\n"),
        [Path::new("/etc/hook/a")]
    );
    let nothing = refusal(
        READER,
        Some("allow: {dirs: []}\n"),
        Some("allow: {dirs: [/etc]}\n"),
    );
    assert!(
        nothing.contains("allow.dirs of h/hook.yaml:1:"),
        "{nothing}"
    );
}

#[test]
fn each_list_of_a_rule_replaces_the_top_level_list_of_the_same_name() {
    let reader = r#"{"wishes":{"paths":["/domain/title"],"dirs":["/a"],"config":["key"]}}"#;
    let with = |rules: &str| {
        let top = "allow: {paths: [], dirs: [/b], config: [key]}";
        resolve_texts(
            reader,
            Some("config: {key: v}\n"),
            Some(&format!("{top}\nrules:\n{rules}")),
        )
    };
    let open = "- {namespaces: [ns], allow: {paths: ['/domain/**'], dirs: [/a]}}\n";
    assert_eq!(with(open).unwrap().dirs, [Path::new("/a")]);
    // Lists that the rule does not mention come from the top level.
    for (closed, part) in [
        (
            "- {namespaces: [ns], allow: {dirs: [/a]}}\n",
            "\"/domain/title\"",
        ),
        (
            "- {namespaces: [ns], allow: {paths: ['/domain/**']}}\n",
            "\"/a\"",
        ),
        (
            "- {namespaces: [ns], allow: {paths: ['/domain/**'], dirs: [/a], config: []}}\n",
            "\"key\"",
        ),
        (
            "- {namespaces: [other], allow: {paths: ['/domain/**'], dirs: [/a]}}\n",
            "\"/a\"",
        ),
    ] {
        let error = with(closed).err().unwrap().to_string();
        assert!(error.contains(part) && error.contains("p.yaml:"), "{error}");
    }
    // The lists of all rules that name the hook are combined.
    let two = "- {namespaces: [ns], allow: {paths: ['/domain/title']}}\n\
               - {namespaces: [ns], allow: {dirs: [/a]}}\n";
    assert!(with(two).is_ok());
}

#[test]
fn hook_points_are_narrowed_and_reordered() {
    let points = |yaml: &str| with(yaml, None).unwrap().hook_points;
    assert_eq!(
        points("priority: 7\n")
            .iter()
            .map(|p| p.priority)
            .collect::<Vec<_>>(),
        [7, 7]
    );
    let chosen = points("priority: 7\nhookPoints: [{name: Shutdown, priority: 9}]\n");
    assert_eq!(
        (chosen.len(), chosen[0].point, chosen[0].priority),
        (1, HookPoint::Shutdown, 9)
    );
    let error = with("hookPoints:\n- name: PreStart\n", None).err().unwrap();
    assert!(
        error.to_string().starts_with("h/hook.yaml:3:9: "),
        "{error}"
    );
    let error = with("{}", Some("allow: {hookPoints: [Shutdown]}\n"))
        .err()
        .unwrap();
    assert!(
        error.to_string().contains("hook point \"OnDefineDomain\""),
        "{error}"
    );
}

#[test]
fn caps_lower_defaults_and_refuse_higher_values() {
    let operator = Some("limits: {memory: 32Mi, deadline: 1s}\nfailurePolicies: [Fail, DryRun]\n");
    let settings = with("deadline: 500ms\nlog: 1Ki\n", operator).unwrap();
    assert_eq!(settings.limits.memory, 32 << 20);
    assert_eq!(settings.limits.call_deadline.as_millis(), 500);
    assert_eq!(settings.limits.log, 1024);
    for (yaml, start) in [
        ("memory: 33Mi\n", "h/hook.yaml:2:9: "),
        ("deadline: 2s\n", "h/hook.yaml:2:11: "),
        ("failurePolicy: Ignore\n", "h/hook.yaml:2:16: "),
    ] {
        let error = with(yaml, operator).err().unwrap().to_string();
        assert!(
            error.starts_with(start) && error.contains("p.yaml:"),
            "{error}"
        );
    }
    let dry = with("failurePolicy: DryRun\n", operator).unwrap();
    assert_eq!(dry.failure_policy, FailurePolicy::DryRun);
}

#[test]
fn pinned_and_listed_digests_are_enforced() {
    let (right, wrong) = ("d".repeat(64), "e".repeat(64));
    assert!(with(&format!("sha256: {right}\n"), Some("digests: Pinned\n")).is_ok());
    let error = with(&format!("sha256: {wrong}\n"), None)
        .err()
        .unwrap()
        .to_string();
    assert!(
        error.starts_with("h/hook.yaml:2:9: ") && error.contains(&right),
        "{error}"
    );
    let error = with("{}", Some("digests: Pinned\n"))
        .err()
        .unwrap()
        .to_string();
    assert!(error.starts_with("p.yaml:1:10: "), "{error}");
    let listed = |digest: &str| format!("digests: Listed\nrules: [{{digests: [{digest}]}}]\n");
    assert!(with("{}", Some(&listed(&right))).is_ok());
    let pinned = format!("sha256: {right}\n");
    assert!(with(&pinned, Some(&listed(&wrong))).is_err());
}

#[test]
fn a_rule_lists_digests_in_its_namespaces_only() {
    let policy = |digests: &str, namespace: &str| {
        let digest = "d".repeat(64);
        format!("digests: {digests}\nrules: [{{digests: [{digest}], namespaces: [{namespace}]}}]\n")
    };
    for digests in ["Listed", "Pinned"] {
        assert!(with("{}", Some(&policy(digests, "ns"))).is_ok());
        let error = with("{}", Some(&policy(digests, "infra")));
        let error = error.err().unwrap().to_string();
        assert!(error.starts_with("p.yaml:1:10: "), "{error}");
        assert!(error.contains("for the VM's namespace"), "{error}");
    }
}

#[test]
fn configuration_keys_that_the_module_does_not_read_are_refused() {
    assert_eq!(with("config: {key: v}\n", None).unwrap().config["key"], "v");
    let error = with("config:\n  keey: v\n", None)
        .err()
        .unwrap()
        .to_string();
    assert!(
        error.starts_with("h/hook.yaml:3:9: ") && error.contains("[key]"),
        "{error}"
    );
    let error = with("config: {key: v}\n", Some("allow: {config: []}\n"));
    assert!(
        error
            .err()
            .unwrap()
            .to_string()
            .contains("allow.config of p.yaml:1:")
    );
}

#[test]
fn a_wish_that_no_layer_allows_is_refused_at_load() {
    let wishes = |paths: &str| format!(r#"{{"wishes":{{"paths":[{paths}]}}}}"#);
    let both = wishes(r#""/domain/title","/domain/devices/**""#);
    let narrow = "allow:\n  paths: [/domain/title, '/domain/devices/disk/driver/**']\n";
    assert!(resolve_texts(&both, Some(narrow), None).is_ok());
    let error = refusal(&both, Some("allow:\n  paths: [/domain/title]\n"), None);
    assert!(
        error.contains("\"/domain/devices/**\"") && error.contains("allow.paths of h/hook.yaml:2:"),
        "{error}"
    );
    let error = refusal(
        &both,
        None,
        Some("allow:\n  paths: ['/domain/devices/**']\n"),
    );
    assert!(
        error.contains("\"/domain/title\"") && error.contains("p.yaml:2:"),
        "{error}"
    );
    let dangerous = wishes(r#""/domain/qemu:commandline/**""#);
    for operator in [None, Some("{}"), Some("allow: {paths: ['/domain/**']}\n")] {
        let error = refusal(
            &dangerous,
            Some("allow: {paths: ['/domain/qemu:commandline/**']}\n"),
            operator,
        );
        assert!(error.contains("qemu:commandline"), "{error}");
    }
    let nobody = resolve_texts(&dangerous, None, None)
        .unwrap_err()
        .to_string();
    assert!(
        nobody.contains("--policy of virt-hook names one) does not allow: add it there"),
        "{nobody}"
    );
    let granted = "allow: {dangerous: ['/domain/qemu:commandline/**']}\n";
    assert!(resolve_texts(&dangerous, None, Some(granted)).is_ok());
    let rule = "allow: {dangerous: []}\nrules:\n- namespaces: [ns]\n  allow: {dangerous: ['/domain/qemu:commandline/**']}\n";
    assert!(resolve_texts(&dangerous, None, Some(rule)).is_ok());
    assert!(resolve_texts(&dangerous, None, Some(&rule.replace("[ns]", "[other]"))).is_err());
}

#[test]
fn sidecars_are_unrestricted_or_forbidden() {
    let operator = OperatorPolicy::parse(Path::new("p.yaml"), "sidecars: Forbid\n").unwrap();
    let limits = Limits::default();
    assert!(resolve_sidecar(Vec::new(), &limits, None, None).is_ok());
    let error = resolve_sidecar(Vec::new(), &limits, None, Some(&operator))
        .err()
        .unwrap();
    assert_eq!(
        error.to_string(),
        "p.yaml:1:11: gRPC sidecars are forbidden"
    );
    let yaml = |text| HookYaml::parse(Path::new("h/hook.yaml"), text).unwrap();
    let points = || Description::parse(PLAIN).unwrap().hook_points;
    let own = yaml("failurePolicy: Ignore\npriority: 8\nhookPoints: [{name: Shutdown}]\n");
    let settings = resolve_sidecar(points(), &limits, Some(&own), None).unwrap();
    assert_eq!(settings.failure_policy, FailurePolicy::Ignore);
    assert_eq!(
        (settings.hook_points.len(), settings.hook_points[0].priority),
        (1, 8)
    );
    let own = yaml("priority: 8\nallow: {paths: []}\n");
    let error = resolve_sidecar(points(), &limits, Some(&own), None)
        .err()
        .unwrap();
    assert!(
        error
            .to_string()
            .starts_with("h/hook.yaml:2:16: allow.paths"),
        "{error}"
    );
}

const BEFORE: &str = "<domain type='kvm'><title>a</title><sysinfo type='smbios'><x>1</x></sysinfo>\
    <devices><disk><target dev='vda'/><driver name='qemu'/></disk></devices></domain>";

/// Edits of a hook, and whether each is of the dangerous set.
const EDITS: [(&str, &str, bool); 7] = [
    ("<title>a", "<title>b", false),
    ("<x>1", "<x>2", false),
    ("type='smbios'", "type='other'", false),
    ("name='qemu'", "name='qemu' queues='4'", false),
    ("<target", "<source file='/etc/shadow'/><target", true),
    ("<devices>", "<devices><emulator>/bin/sh</emulator>", true),
    ("<sysinfo type='smbios'><x>1</x></sysinfo>", "", false),
];

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

fn permits(grant: &Grant, edit: usize) -> bool {
    let (from, to, _) = EDITS[edit];
    let before = Document::parse(BEFORE).unwrap();
    let after = Document::parse(&BEFORE.replace(from, to)).unwrap();
    let changes = diff(&before, &after);
    assert!(!changes.is_empty());
    let budget = Rc::new(Budget::unlimited());
    grant.check(&changes, &before, &after, &budget).is_ok()
}

fn alone(patterns: &[usize]) -> Grant {
    let patterns = patterns.iter().map(|n| PATTERNS[*n].parse().unwrap());
    Grant::new(vec![Layer {
        patterns: patterns.collect(),
        kinds: Vec::new(),
        origin: String::new(),
    }])
}

fn list(patterns: &[usize]) -> String {
    let quoted: Vec<String> = patterns
        .iter()
        .map(|n| format!("\"{}\"", PATTERNS[*n]))
        .collect();
    format!("[{}]", quoted.join(", "))
}

fn some() -> impl Strategy<Value = Vec<usize>> {
    among(0..PATTERNS.len())
}

/// The last two patterns name dangerous nodes.
fn among(patterns: std::ops::Range<usize>) -> impl Strategy<Value = Vec<usize>> {
    proptest::collection::vec(patterns, 0..4)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// A change is permitted only if every layer permits it.
    #[test]
    fn a_grant_is_the_intersection(
        wishes in some(),
        owner in proptest::option::of(some()),
        operator in proptest::option::of(among(0..6)),
        dangerous in among(6..PATTERNS.len()),
        edit in 0..EDITS.len(),
    ) {
        let description = format!(r#"{{"wishes":{{"paths":{}}}}}"#, list(&wishes));
        let yaml = owner.as_ref().map(|own| format!("allow: {{paths: {}}}\n", list(own)));
        let paths = operator.as_ref().map(|own| format!("paths: {}, ", list(own))).unwrap_or_default();
        let policy = format!("allow: {{{paths}dangerous: {}}}\n", list(&dangerous));
        if let Ok(settings) = resolve_texts(&description, yaml.as_deref(), Some(&policy)) {
            let is_dangerous = EDITS[edit].2;
            let everyone = permits(&alone(&wishes), edit)
                && owner.as_ref().is_none_or(|own| permits(&alone(own), edit))
                && operator.as_ref().is_none_or(|own| {
                    permits(&alone(&[own.as_slice(), &dangerous].concat()), edit)
                })
                && (!is_dangerous || permits(&alone(&[&[0], dangerous.as_slice()].concat()), edit));
            prop_assert_eq!(permits(&settings.grant, edit), everyone);
            // Without the operator nothing dangerous passes.
            if let Ok(without) = resolve_texts(&description, yaml.as_deref(), None) {
                prop_assert!(!is_dangerous || !permits(&without.grant, edit));
            }
        }
    }

    /// Limits are at most every cap, or the hook does not run.
    #[test]
    fn limits_stay_below_caps(own in 1_usize..512, cap in 1_usize..512) {
        let yaml = format!("memory: {own}Mi\n");
        let policy = format!("limits: {{memory: {cap}Mi}}\n");
        match resolve_texts("{}", Some(&yaml), Some(&policy)) {
            Ok(settings) => prop_assert_eq!(settings.limits.memory, own << 20),
            Err(_) => prop_assert!(own > cap),
        }
        let settings = resolve_texts("{}", None, Some(&policy)).unwrap();
        prop_assert!(settings.limits.memory <= cap << 20);
    }

    /// Every refusal has a position in the text.
    #[test]
    fn no_text_makes_the_parsers_panic(text in texts()) {
        // YAML's line ends are both characters and the pair of them.
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

    /// A single mistake in a valid policy is refused at its line.
    #[test]
    fn a_mistake_is_refused_at_its_line(at in 0..GOOD.len(), slip in 0..3_usize) {
        let mut lines: Vec<String> = GOOD.iter().map(|line| (*line).to_owned()).collect();
        prop_assert!(OperatorPolicy::parse(Path::new("p"), &lines.join("\n")).is_ok());
        let (indent, rest) = lines[at].split_at(lines[at].len() - lines[at].trim_start().len());
        lines[at] = match slip {
            0 => format!("{indent}x{rest}"),
            1 => format!("{indent}{rest} [["),
            _ => format!("{indent}{rest}\n{indent}{rest}"),
        };
        match OperatorPolicy::parse(Path::new("p"), &lines.join("\n")) {
            Err(PolicyError::Wrong { line, .. }) => {
                let expected = at as u64 + 1;
                // An unterminated list is reported further on.
                prop_assert!(line >= expected && (slip == 1 || line <= expected + 1), "{line} {expected}");
            }
            other => prop_assert!(false, "{other:?}"),
        }
    }
}

const GOOD: [&str; 9] = [
    "digests: Pinned",
    "sidecars: Forbid",
    "failurePolicies: [Fail]",
    "limits:",
    "  deadline: 1s",
    "  memory: 32Mi",
    "allow:",
    "  paths: [/domain/title]",
    "  dirs: [/etc/hook]",
];

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
    let likely = proptest::collection::vec((word, mark), 0..12).prop_map(|parts| {
        parts
            .iter()
            .map(|(word, mark)| format!("{word}{mark}"))
            .collect()
    });
    prop_oneof![".{0,60}", "[a-z0-9:\\[\\]{}&*!,'\" \n-]{0,80}", likely]
}
