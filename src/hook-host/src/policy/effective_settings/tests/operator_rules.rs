//! Rules of the operator's policy, and the digests that rules list.

use super::*;

#[test]
fn each_list_of_a_rule_replaces_the_top_level_list_of_the_same_name() {
    let reader = r#"{"wishes":{"paths":["/domain/title"],"dirs":["/a"],"config":["key"]}}"#;
    let resolve_with = |rules: &str| {
        let top = "allow: {paths: [], dirs: [/b], config: [key]}";
        resolve_texts(
            reader,
            Some("config: {key: v}\n"),
            Some(&format!("{top}\nrules:\n{rules}")),
        )
    };
    let permitting_rule = "- {namespaces: [ns], allow: {paths: ['/domain/**'], dirs: [/a]}}\n";
    assert_eq!(
        resolve_with(permitting_rule).unwrap().dirs,
        [Path::new("/a")]
    );
    // A list that the rule does not have is the one of the top level.
    for (refusing_rule, part) in [
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
        let error = resolve_with(refusing_rule).err().unwrap().to_string();
        assert!(error.contains(part) && error.contains("p.yaml:"), "{error}");
    }
    // The lists of all applicable rules are combined.
    let two_rules = "- {namespaces: [ns], allow: {paths: ['/domain/title']}}\n\
               - {namespaces: [ns], allow: {dirs: [/a]}}\n";
    assert!(resolve_with(two_rules).is_ok());
}

#[test]
fn pinned_and_listed_digests_are_enforced() {
    let (actual, other) = ("d".repeat(64), "e".repeat(64));
    assert!(resolve_yaml(&format!("sha256: {actual}\n"), Some("digests: Pinned\n")).is_ok());
    let error = resolve_yaml(&format!("sha256: {other}\n"), None)
        .err()
        .unwrap()
        .to_string();
    assert!(
        error.starts_with("h/hook.yaml:2:9: ") && error.contains(&actual),
        "{error}"
    );
    let error = resolve_yaml("{}", Some("digests: Pinned\n"))
        .err()
        .unwrap()
        .to_string();
    assert!(error.starts_with("p.yaml:1:10: "), "{error}");
    let listed = |digest: &str| format!("digests: Listed\nrules: [{{digests: [{digest}]}}]\n");
    assert!(resolve_yaml("{}", Some(&listed(&actual))).is_ok());
    let pinned = format!("sha256: {actual}\n");
    assert!(resolve_yaml(&pinned, Some(&listed(&other))).is_err());
}

#[test]
fn a_rule_lists_digests_in_its_namespaces_only() {
    let policy = |digests: &str, namespace: &str| {
        let digest = "d".repeat(64);
        format!("digests: {digests}\nrules: [{{digests: [{digest}], namespaces: [{namespace}]}}]\n")
    };
    for digests in ["Listed", "Pinned"] {
        assert!(resolve_yaml("{}", Some(&policy(digests, "ns"))).is_ok());
        let error = resolve_yaml("{}", Some(&policy(digests, "infra")));
        let error = error.err().unwrap().to_string();
        assert!(error.starts_with("p.yaml:1:10: "), "{error}");
        assert!(error.contains("for the VM's namespace"), "{error}");
    }
}
