//! Lines and warnings of policies.

use std::path::Path;

use super::*;

fn summary(text: &str) -> PolicySummary {
    OperatorPolicy::parse(Path::new("p.yaml"), text)
        .unwrap()
        .summary()
}

#[test]
fn a_rule_with_keys_names_them() {
    let key = include_str!("../../../../../sigstore-bundle/tests/bundles/key.pub");
    let key = key.replace('\n', "\n    ");
    let text = format!(
        "rules:\n- namespaces: [infra]\n  keys:\n  - |\n    {key}\n  allow: {{dangerous: [DiskFormat]}}\n"
    );
    let summary = summary(&text);
    let rule = &summary.allows[summary.allows.len() - 3..];
    assert_eq!(
        rule,
        [
            "namespace infra, signed by the key DrRankyFe9VLy49z/pgK3ZkPgRuOHtj31dSVNl3TkFA=, instead:",
            "  not signed by such a key: refused",
            "  dangerous: DiskFormat",
        ]
    );
    let warnings = summary.warnings.iter();
    let mut texts = warnings.map(|warning| warning.text);
    assert!(!texts.any(|text| text.contains("of these namespaces")));
}

#[test]
fn every_key_has_a_line() {
    let text = "digests: Pinned\nsidecars: Forbid\nfailurePolicies: [Fail]\n\
        limits: {deadline: 1s, memory: 32Mi}\n\
        allow: {paths: [/domain/title], dangerous: [], config: [a, b]}\n\
        rules: [{namespaces: [infra], allow: {dangerous: [DiskFormat], hookPoints: [PreStart]}}]\n";
    assert_eq!(
        summary(text).allows,
        [
            "modules: those whose sha256 is in their hook.yaml or in a rule, or that a rule's key signed",
            "gRPC sidecars: none",
            "called with a domain that arrives by a migration: modules",
            "failure policies: Fail",
            "limits: deadline 1s, memory 33554432 bytes",
            "all hooks:",
            "  paths: /domain/title",
            "  dangerous: nothing",
            "  dirs: nothing",
            "  config: a, b",
            "  hookPoints: what each module declares",
            "  migration: what each module declares",
            "  pod: nothing",
            "  podRecords: nothing",
            "namespace infra, instead:",
            "  dangerous: DiskFormat",
            "  hookPoints: PreStart",
        ]
    );
}

#[test]
fn policy_gaps_are_warned_about() {
    let warnings = |text: &str| -> Vec<(String, String)> {
        let warnings = summary(text).warnings.into_iter();
        warnings
            .map(|warning| (warning.place, warning.text.to_owned()))
            .collect()
    };
    let all = warnings("sidecars: Allow\n");
    assert_eq!(all.len(), 6, "{all:?}");
    let has = |all: &[(String, String)], place: &str, part: &str| {
        all.iter()
            .any(|(actual, text)| actual == place && text.contains(part))
    };
    assert!(has(&all, "p.yaml:1:11", "sidecars: Forbid"), "{all:?}");
    assert!(has(&all, "p.yaml", "digests: Listed") && has(&all, "p.yaml", "paths: []"));
    for policy in ["Ignore", "DryRun"] {
        let part = format!("may say {policy}: ");
        assert!(has(&all, "p.yaml", &part), "{all:?}");
        let named = warnings(&format!("failurePolicies: [Fail, {policy}]\n"));
        assert!(has(&named, "p.yaml:1:18", &part), "{named:?}");
    }
    assert!(!all.iter().any(|(_, text)| text.contains("[Fail, DryRun]")));
    let digest = "a".repeat(64);
    let careful_policy = format!(
        "digests: Listed\nsidecars: Forbid\nfailurePolicies: [Fail]\n\
         allow: {{paths: [], hookPoints: [PreStart]}}\n\
         rules: [{{digests: [{digest}], allow: {{dangerous: [DiskFormat]}}}}]\n"
    );
    assert_eq!(warnings(&careful_policy), []);
    let to_all = careful_policy.replace("paths: []", "paths: [], dangerous: [Emulator]");
    assert!(
        has(&warnings(&to_all), "p.yaml:4:31", "every module gets"),
        "{:?}",
        warnings(&to_all)
    );
    let migrates = |more: &str| {
        let points = format!("hookPoints: [PreStart, PreMigrationSource]{more}");
        warnings(&careful_policy.replace("hookPoints: [PreStart]", &points))
    };
    let open = migrates("");
    assert!(has(&open, "p.yaml:4:32", "without `migration`"), "{open:?}");
    assert_eq!(migrates(", migration: [bandwidth]"), []);
    let in_rule = careful_policy.replace(
        "{dangerous: [DiskFormat]}",
        "{dangerous: [DiskFormat], hookPoints: [PreMigrationSource]}",
    );
    assert!(warnings(&in_rule)[0].1.contains("without `migration`"));
    let by_namespace = careful_policy.replace(
        "}]\n",
        "}, {namespaces: [a], allow: {dangerous: [Emulator]}}]\n",
    );
    assert!(warnings(&by_namespace)[0].1.contains("of these namespaces"));
}

/// A key withdraws nothing where it stands without the date, or with an earlier one.
#[test]
fn a_key_that_has_a_date_in_one_place_only_is_warned_about() {
    let pem = "-----BEGIN PUBLIC KEY-----\\nMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEnNDg5opqQIiSJfw22I8bWsZAtohG\
               \\nXo+kf+NKIPW17Q1brNzz4Gefi9K6aSO3CPP0Uq9B/KJ8h1rZxRZXLqb7tQ==\\n-----END PUBLIC KEY-----";
    let plain = format!("\"{pem}\"");
    let dated = |month: u32| format!("{{key: \"{pem}\", notBefore: 2026-{month:02}-01T00:00:00Z}}");
    let places = |first: &str, second: &str| -> Vec<String> {
        let text =
            format!("rules:\n- keys: [{first}]\n- namespaces: [infra]\n  keys: [{second}]\n");
        let warnings = summary(&text).warnings.into_iter();
        let of_keys = warnings.filter(|warning| warning.text.contains("notBefore"));
        of_keys.map(|warning| warning.place).collect()
    };
    assert_eq!(places(&plain, &plain), [""; 0]);
    assert_eq!(places(&dated(11), &dated(11)), [""; 0]);
    assert_eq!(places(&plain, &dated(11)), ["p.yaml:2:10"]);
    assert_eq!(places(&dated(11), &plain), ["p.yaml:4:10"]);
    assert_eq!(places(&dated(10), &dated(11)), ["p.yaml:2:10"]);
}
