//! Findings are shortened, joined and summarised.

use super::*;

#[test]
fn findings_that_follow_from_a_hook_that_is_not_idempotent_are_shortened() {
    let failed = |check, details: &[&str]| {
        let details = details.iter().map(|detail| (*detail).to_owned());
        Finding::from_details(check, details.collect(), CheckVerdict::Failed, "", "why")
    };
    let mut alone = [failed("migration", &["a: b"]), failed("runs", &["a: b"])];
    mark_consequences(&mut alone);
    assert!(alone.iter().all(|finding| finding.message == "why"));
    let mut all = [
        failed("runs", &["a: b"]),
        failed("idempotent", &["a, b: more"]),
        failed("migration", &["a: title", "b: title"]),
        failed("after libvirt", &["a: title", "b, c: own"]),
    ];
    mark_consequences(&mut all);
    let left = all
        .iter()
        .map(|finding| (finding.message == "why", finding.details.join(" ")));
    let left: Vec<(bool, String)> = left.collect();
    let expected = [
        (true, "a: b"),
        (true, "a, b: more"),
        (false, ""),
        (true, "b, c: own"),
    ];
    assert_eq!(
        left,
        expected.map(|(is_same, text)| (is_same, text.to_owned()))
    );
}

#[test]
fn equal_details_of_several_vmis_are_joined() {
    let lines = ["a: x: 1", "b: y", "c: x: 1"].map(str::to_owned);
    assert_eq!(join_equal_messages(&lines), ["a, c: x: 1", "b: y"]);
    assert_eq!(join_equal_messages(&[]), [""; 0]);
}

#[test]
fn summary_names_the_checks_that_did_not_pass() {
    let line = |verdicts: &[(&'static str, CheckVerdict)]| {
        let findings = verdicts
            .iter()
            .map(|(name, verdict)| Finding::new(name, *verdict, ""));
        let findings: Vec<Finding> = findings.collect();
        (overall(&findings), summary(&findings, Style::default()))
    };
    let (passed, doubtful) = (
        ("size", CheckVerdict::Passed),
        ("wishes", CheckVerdict::Doubtful),
    );
    let (failed, not_checked) = (
        ("runs", CheckVerdict::Failed),
        ("schema", CheckVerdict::NotChecked),
    );
    for (findings, verdict, expected) in [
        (vec![passed], CheckVerdict::Passed, "ok: 1 check\n"),
        (
            vec![passed, passed, not_checked],
            CheckVerdict::Passed,
            "ok: 2 checks; not checked: 1 (schema)\n",
        ),
        (
            vec![passed, doubtful, not_checked],
            CheckVerdict::Doubtful,
            "doubtful: 1 (wishes) of 2 checks; not checked: 1 (schema)\n",
        ),
        (
            vec![passed, failed, doubtful, failed],
            CheckVerdict::Failed,
            "failed: 2 (runs, runs) of 4 checks; doubtful: 1 (wishes)\n",
        ),
    ] {
        assert_eq!(line(&findings), (verdict, expected.to_owned()));
    }
}
