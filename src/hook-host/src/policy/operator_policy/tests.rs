//! Parses policies, and selects the rules that name a module.

use super::*;

fn parse(text: &str) -> Result<OperatorPolicy, PolicyError> {
    OperatorPolicy::parse(Path::new("p.yaml"), text)
}

#[test]
fn mistakes_are_refused_with_their_position() {
    for (text, start, part) in [
        ("digest: Any\n", "p.yaml:1:1: ", "digest"),
        ("digests: any\n", "p.yaml:1:", "any"),
        ("digests: Listed\n", "p.yaml:1:10: ", "no rule lists"),
        ("failurePolicies: [Ignore]\n", "p.yaml:1:18: ", "Fail"),
        ("limits: {memory: 2Gi}\n", "p.yaml:1:18: ", "536870912"),
        ("limits: {time: 2s}\n", "p.yaml:1:10: ", "time"),
        ("limits: {memory: 1Ki}\n", "p.yaml:1:18: ", "1048576"),
        ("limits: {output: 1Ki}\n", "p.yaml:1:18: ", "65536"),
        (
            "allow: {paths: [/domain/title, /domain/devices/emulator]}\n",
            "p.yaml:1:32: ",
            "(Emulator), which only `dangerous`",
        ),
        (
            "allow: {dangerous: [/domain/devices/emulator, '/domain/**']}\n",
            "p.yaml:1:47: ",
            "names nothing of the dangerous set",
        ),
        (
            "allow: {dangerous: [DiskForm]}\n",
            "p.yaml:1:21: ",
            "DiskFormat",
        ),
        (
            "rules:\n- {namespaces: [''], allow: {}}\n",
            "p.yaml:2:17: ",
            "namespace \"\"",
        ),
        (
            "rules:\n- {namespaces: [infra, 'prod-*'], allow: {}}\n",
            "p.yaml:2:24: ",
            "\"prod-*\" is not a name of a namespace",
        ),
        (
            "rules:\n- namespaces: [Prod]\n  allow: {}\n",
            "p.yaml:2:16: ",
            "\"Prod\" is not a name of a namespace",
        ),
        (
            "rules:\n- allow: {}\n",
            "p.yaml:2:3: ",
            "names digests, namespaces or keys",
        ),
        (
            "rules:\n- {digests: [], namespaces: [infra], allow: {}}\n",
            "p.yaml:2:13: ",
            "digests lists nothing",
        ),
        (
            "rules:\n- {namespaces: [], keys: [], allow: {}}\n",
            "p.yaml:2:16: ",
            "namespaces lists nothing",
        ),
        ("rules: {}\n", "p.yaml:1:8: ", ""),
        ("rules:\n- keys: []\n", "p.yaml:2:9: ", "from 1 to 32 keys"),
        (
            "rules:\n- keys: [abc]\n",
            "p.yaml:2:10: ",
            "not a key in PEM",
        ),
        (
            "allow: {dangerous: ['qemu:commandline']}\n",
            "p.yaml:1:",
            "/domain/",
        ),
    ] {
        let error = parse(text).unwrap_err().to_string();
        assert!(
            error.starts_with(start) && error.contains(part),
            "{text:?}: {error}"
        );
    }
}

#[test]
fn a_key_without_a_value_is_refused() {
    let keys = [
        "digests",
        "sidecars",
        "sidecarsOnArrival",
        "appliedEvents",
        "failurePolicies",
        "limits",
        "limits: {deadline",
        "limits: {memory",
        "limits: {output",
        "limits: {log",
        "allow",
        "allow: {paths",
        "allow: {dangerous",
        "allow: {dirs",
        "allow: {config",
        "allow: {hookPoints",
        "rules",
        "rules: [{digests",
        "rules: [{namespaces",
        "rules: [{namespaces: [infra], keys",
        "rules: [{namespaces: [infra], allow",
        "rules: [{namespaces: [infra], allow: {paths",
    ];
    for key in keys {
        let ends = closing_brackets(key);
        for missing_value in ["", " ~", " null"] {
            let text = format!("{key}:{missing_value}{ends}\n");
            let error = parse(&text).map(|_| ()).unwrap_err().to_string();
            assert!(
                error.starts_with("p.yaml:1:") && error.contains("a value is missing"),
                "{text}: {error}"
            );
        }
    }
    for text in ["", "# nothing\n", "---\n", "~\n", "null\n"] {
        assert!(parse(text).is_err(), "{text:?}");
    }
    assert!(parse("{}\n").is_ok());
}

/// Closes the brackets that are open at the end of the text.
fn closing_brackets(text: &str) -> String {
    let mut ends = Vec::new();
    for c in text.chars() {
        match c {
            '{' => ends.push('}'),
            '[' => ends.push(']'),
            '}' | ']' => drop(ends.pop()),
            _ => {}
        }
    }
    ends.into_iter().rev().collect()
}

#[test]
fn rules_match_digests_and_namespaces() {
    let (a, b) = ("a".repeat(64), "b".repeat(64));
    let policy = parse(&format!(
        "rules:\n- {{digests: [{a}], allow: {{config: [one]}}}}\n\
         - {{namespaces: [infra], allow: {{config: [two]}}}}\n\
         - {{digests: [{b}], namespaces: [infra], allow: {{config: [three]}}}}\n"
    ));
    let policy = policy.unwrap();
    let config_of_rules = |digest: &str, namespace: &str| -> Vec<String> {
        let rules = policy.rules(digest, namespace).into_iter();
        let config_keys = rules.flat_map(|rule| rule.allow.config.as_ref().unwrap().get().clone());
        config_keys.collect()
    };
    assert_eq!(config_of_rules("c", "default"), Vec::<String>::new());
    assert_eq!(config_of_rules(&a, "default"), ["one"]);
    assert_eq!(config_of_rules(&a, "infra"), ["one", "two"]);
    assert_eq!(config_of_rules(&b, "infra"), ["two", "three"]);
    assert_eq!(config_of_rules(&b, ""), Vec::<String>::new());
    assert!(policy.has_namespace_rules());
    assert!(!parse("digests: Pinned\n").unwrap().has_namespace_rules());
    assert!(policy.lists_digest(&a, "default") && policy.lists_digest(&a, ""));
    assert!(policy.lists_digest(&b, "infra") && !policy.lists_digest(&b, "default"));
    assert!(!policy.lists_digest(&b, "") && !policy.lists_digest("c", "infra"));
}

#[test]
fn only_an_explicit_policy_file_must_exist() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("none/p.yaml");
    let read = |source| OperatorPolicy::read(&source);
    assert!(
        read(PolicySource::IfPresent(path.clone()))
            .unwrap()
            .is_none()
    );
    assert!(read(PolicySource::None).unwrap().is_none());
    let error = read(PolicySource::File(path)).unwrap_err();
    assert!(error.to_string().contains("no such file"));
}

#[test]
fn directories_of_all_rules_are_listed() {
    let text = "allow: {dirs: [/etc/teams]}\nrules: [{namespaces: [infra], allow: {dirs: [/etc/a, /etc/b]}}]\n";
    let policy = parse(text).unwrap();
    let directories: Vec<&Path> = policy.directories().collect();
    assert_eq!(
        directories,
        ["/etc/teams", "/etc/a", "/etc/b"].map(Path::new)
    );
    let none = parse("{}").unwrap();
    assert_eq!(none.directories().count(), 0);
}
