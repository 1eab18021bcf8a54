//! When both sides of a comparison are the same, differ, or cannot be compared.

use super::*;

fn completed(xml: &str) -> VmiOutcome {
    VmiOutcome::Completed {
        xml: xml.to_owned(),
        documents: BTreeMap::new(),
        ignored_failures: Vec::new(),
    }
}

fn refused(why: &str) -> VmiOutcome {
    VmiOutcome::Refused(why.to_owned())
}

#[test]
fn domains_are_compared_by_content_not_by_notation() {
    let first = completed("<domain><a x='1'/><b/></domain>");
    let same = VmiComparison::between(
        &first,
        &completed("<domain>\n  <b></b>\n  <a x=\"1\"/>\n</domain>"),
    );
    assert_eq!(
        (same.verdict, same.changes.len()),
        (ComparisonVerdict::Same, 0)
    );
    let other = VmiComparison::between(&first, &completed("<domain><a x='2'/><b/></domain>"));
    assert_eq!(other.verdict, ComparisonVerdict::Different);
    assert_eq!(other.changes[0].path, "/domain/a/@x");
}

#[test]
fn sides_that_did_not_run_are_never_the_same() {
    let (completed, refused) = (completed("<domain/>"), refused("no"));
    let not_run = VmiOutcome::NotRun("usage".to_owned());
    for (original, port, verdict, reason) in [
        (
            &not_run,
            &not_run,
            ComparisonVerdict::NotRun,
            "the original: usage; the hook: usage",
        ),
        (
            &not_run,
            &refused,
            ComparisonVerdict::Refused,
            "did not run: usage; the hook refuses it: no",
        ),
        (
            &refused,
            &not_run,
            ComparisonVerdict::Refused,
            "refuses it: no; the hook did not run: usage",
        ),
        (
            &not_run,
            &completed,
            ComparisonVerdict::Refused,
            "the original did not run: usage",
        ),
        (
            &completed,
            &not_run,
            ComparisonVerdict::Refused,
            "the hook refuses it: usage",
        ),
    ] {
        let comparison = VmiComparison::between(original, port);
        assert_eq!(comparison.verdict, verdict, "{reason}");
        let actual_reason = comparison.reason.unwrap_or_default();
        assert!(actual_reason.ends_with(reason), "{actual_reason}");
    }
}

#[test]
fn side_with_unknown_effect_is_not_compared() {
    let unknown = VmiOutcome::Unknown("no facts".to_owned());
    for (original, port) in [
        (&unknown, &refused("no")),
        (&refused("no"), &unknown),
        (&completed("<domain/>"), &unknown),
        (&unknown, &unknown),
    ] {
        let comparison = VmiComparison::between(original, port);
        assert_eq!(comparison.verdict, ComparisonVerdict::NotRun);
        let reason = comparison.reason.unwrap_or_default();
        assert!(reason.ends_with("was not compared: no facts"), "{reason}");
    }
}

#[test]
fn two_refusals_are_the_same_and_one_refusal_is_not() {
    let domain = completed("<domain/>");
    assert_eq!(
        VmiComparison::between(&refused("a"), &refused("b")).verdict,
        ComparisonVerdict::Same
    );
    for comparison in [
        VmiComparison::between(&domain, &refused("no")),
        VmiComparison::between(&refused("no"), &domain),
    ] {
        assert_eq!(comparison.verdict, ComparisonVerdict::Refused);
        assert!(
            comparison
                .reason
                .is_some_and(|reason| reason.ends_with("refuses it: no"))
        );
    }
}
