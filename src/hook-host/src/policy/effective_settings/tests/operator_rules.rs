//! Rules of the operator's policy, and the digests that they list.

use super::*;

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
