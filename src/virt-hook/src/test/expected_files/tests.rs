#![allow(clippy::unwrap_used)]
use super::*;

const BEFORE: &str = "<domain>\n  <title>a</title>\n</domain>\n";

fn expected(files: &[(&str, &str)]) -> ExpectedFiles {
    let files = files.iter();
    ExpectedFiles(
        files
            .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()))
            .collect(),
    )
}

fn made(xml: &str) -> Actual {
    Actual::Domain {
        before: BEFORE.to_owned(),
        xml: xml.to_owned(),
        documents: BTreeMap::new(),
        is_hook_called: true,
        discarded_failures: Vec::new(),
    }
}

#[test]
fn a_case_without_expected_files_fails() {
    let differences = expected(&[]).against(&made(BEFORE));
    assert!(differences[0].what.contains("--update"), "{differences:?}");
}

#[test]
fn an_empty_expected_diff_means_no_changes() {
    assert_eq!(expected(&[(DIFF, "")]).against(&made(BEFORE)), []);
    let changed = BEFORE.replace(">a<", ">b<");
    let differences = expected(&[(DIFF, "\n")]).against(&made(&changed));
    assert!(differences[0].diff.contains("+    + b"), "{differences:?}");
}

#[test]
fn domains_are_compared_structurally() {
    let written = "<domain><title>a</title></domain>";
    assert_eq!(expected(&[(XML, written)]).against(&made(BEFORE)), []);
    let other = written.replace(">a<", ">b<");
    let differences = expected(&[(XML, &other)]).against(&made(BEFORE));
    assert!(differences[0].diff.contains("- b\n+ a"), "{differences:?}");
}

#[test]
fn a_discarded_failure_is_expected_by_its_text() {
    let failure = "a at PreStart (failurePolicy: Ignore): no";
    let broken = |xml: &str| Actual::Domain {
        before: BEFORE.to_owned(),
        xml: xml.to_owned(),
        documents: BTreeMap::new(),
        is_hook_called: true,
        discarded_failures: vec![failure.to_owned()],
    };
    let idle = broken(BEFORE);
    let differences = expected(&[(DIFF, "")]).against(&idle);
    assert!(
        differences.iter().any(|one| one.diff.contains(failure)),
        "{differences:?}"
    );
    assert!(expected(&[(DIFF, "")]).doubt(&idle).is_some());
    for files in [&[(ERROR, failure)][..], &[(ERROR, failure), (DIFF, "")]] {
        assert_eq!(expected(files).against(&idle), [], "{files:?}");
        assert_eq!(expected(files).doubt(&idle), None, "{files:?}");
    }
    // Another hook acts.
    let differences = expected(&[(ERROR, failure)]).against(&broken(&BEFORE.replace(">a<", ">b<")));
    assert!(
        differences[0].what.contains("expected.diff"),
        "{differences:?}"
    );
}

#[test]
fn a_veto_differs_from_an_error_and_from_a_domain() {
    let veto = Actual::Veto("no team label".to_owned());
    assert_eq!(expected(&[(VETO, "no team label\n")]).against(&veto), []);
    for name in [ERROR, DIFF, XML] {
        let differences = expected(&[(name, "no team label\n")]).against(&veto);
        assert_eq!(differences.len(), 2, "{name}: {differences:?}");
    }
}

#[test]
fn an_unexpected_error_and_a_hook_that_stops_acting_are_doubted() {
    let error = Actual::Error("trap".to_owned());
    assert!(expected(&[]).doubt(&error).is_some());
    assert!(expected(&[(VETO, "no\n")]).doubt(&error).is_some());
    assert_eq!(expected(&[(ERROR, "another\n")]).doubt(&error), None);
    let idle = made(BEFORE);
    let other = BEFORE.replace(">a<", ">b<");
    for acting in [
        (DIFF, "  /domain/title"),
        (XML, &*other),
        (VETO, "no"),
        (ERROR, "trap"),
        (DOCUMENTS[0], ""),
    ] {
        assert!(expected(&[acting]).doubt(&idle).is_some(), "{acting:?}");
    }
    for open in [&[][..], &[(DIFF, "\n")], &[(XML, BEFORE)]] {
        assert_eq!(expected(open).doubt(&idle), None, "{open:?}");
    }
    assert_eq!(expected(&[(DIFF, "x")]).doubt(&made(&other)), None);
    let veto = Actual::Veto("no".into());
    for acting in [(DIFF, "x"), (DOCUMENTS[0], "")] {
        assert!(expected(&[acting]).doubt(&veto).is_some(), "{acting:?}");
    }
    for open in [&[][..], &[(DIFF, "\n")], &[(VETO, "other")]] {
        assert_eq!(expected(open).doubt(&veto), None, "{open:?}");
    }
}

#[test]
fn new_case_without_changes_is_detected() {
    let changed = made(&BEFORE.replace(">a<", ">b<"));
    assert!(expected(&[]).begins_idle(&made(BEFORE)));
    assert!(!expected(&[]).begins_idle(&changed));
    assert!(!expected(&[]).begins_idle(&Actual::Veto("no".into())));
    assert!(!expected(&[(DIFF, "x")]).begins_idle(&made(BEFORE)));
}

#[test]
fn unexpected_document_changes_are_differences() {
    let documents = BTreeMap::from([("user-data".to_owned(), "x\n".to_owned())]);
    let actual = Actual::Domain {
        before: BEFORE.to_owned(),
        xml: BEFORE.to_owned(),
        documents,
        is_hook_called: true,
        discarded_failures: Vec::new(),
    };
    assert_eq!(expected(&[(DIFF, "")]).against(&actual).len(), 1);
    assert_eq!(expected(&[("user-data", "x")]).against(&actual), []);
}

#[test]
fn updated_expected_files_match_the_result() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("expected.veto"), "no").unwrap();
    let actual = made(&BEFORE.replace(">a<", ">b<"));
    ExpectedFiles::read(dir.path())
        .unwrap()
        .update(dir.path(), &actual)
        .unwrap();
    let now = ExpectedFiles::read(dir.path()).unwrap();
    assert_eq!(now.0.keys().collect::<Vec<_>>(), [DIFF]);
    assert_eq!(now.against(&actual), []);
}
