//! Results are compared with the expected files of a case, which can be updated.
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

fn result_with_domain(xml: &str) -> ActualResult {
    ActualResult::Domain {
        before: BEFORE.to_owned(),
        xml: xml.to_owned(),
        documents: BTreeMap::new(),
        is_hook_called: true,
        discarded_failures: Vec::new(),
    }
}

#[test]
fn a_case_without_expected_files_fails() {
    let differences = expected(&[]).differences(&result_with_domain(BEFORE));
    assert!(differences[0].what.contains("--update"), "{differences:?}");
}

#[test]
fn an_empty_expected_diff_means_no_changes() {
    assert_eq!(
        expected(&[(DIFF_NAME, "")]).differences(&result_with_domain(BEFORE)),
        []
    );
    let changed = BEFORE.replace(">a<", ">b<");
    let differences = expected(&[(DIFF_NAME, "\n")]).differences(&result_with_domain(&changed));
    assert!(differences[0].diff.contains("+    + b"), "{differences:?}");
}

#[test]
fn domains_are_compared_structurally() {
    let written = "<domain><title>a</title></domain>";
    assert_eq!(
        expected(&[(XML_NAME, written)]).differences(&result_with_domain(BEFORE)),
        []
    );
    let other = written.replace(">a<", ">b<");
    let differences = expected(&[(XML_NAME, &other)]).differences(&result_with_domain(BEFORE));
    assert!(differences[0].diff.contains("- b\n+ a"), "{differences:?}");
}

#[test]
fn a_discarded_failure_is_expected_by_its_text() {
    let failure = "a at PreStart (failurePolicy: Ignore): no";
    let broken = |xml: &str| ActualResult::Domain {
        before: BEFORE.to_owned(),
        xml: xml.to_owned(),
        documents: BTreeMap::new(),
        is_hook_called: true,
        discarded_failures: vec![failure.to_owned()],
    };
    let idle = broken(BEFORE);
    let differences = expected(&[(DIFF_NAME, "")]).differences(&idle);
    assert!(
        differences
            .iter()
            .any(|difference| difference.diff.contains(failure)),
        "{differences:?}"
    );
    assert!(expected(&[(DIFF_NAME, "")]).doubt(&idle).is_some());
    for files in [
        &[(ERROR_NAME, failure)][..],
        &[(ERROR_NAME, failure), (DIFF_NAME, "")],
    ] {
        assert_eq!(expected(files).differences(&idle), [], "{files:?}");
        assert_eq!(expected(files).doubt(&idle), None, "{files:?}");
    }
    // Another hook acts.
    let differences =
        expected(&[(ERROR_NAME, failure)]).differences(&broken(&BEFORE.replace(">a<", ">b<")));
    assert!(
        differences[0].what.contains("expected.diff"),
        "{differences:?}"
    );
}

#[test]
fn a_veto_differs_from_an_error_and_from_a_domain() {
    let veto = ActualResult::Veto("no team label".to_owned());
    assert_eq!(
        expected(&[(VETO_NAME, "no team label\n")]).differences(&veto),
        []
    );
    for name in [ERROR_NAME, DIFF_NAME, XML_NAME] {
        let differences = expected(&[(name, "no team label\n")]).differences(&veto);
        assert_eq!(differences.len(), 2, "{name}: {differences:?}");
    }
}

#[test]
fn an_unexpected_error_and_a_hook_that_stops_acting_are_doubted() {
    let error = ActualResult::Error("trap".to_owned());
    assert!(expected(&[]).doubt(&error).is_some());
    assert!(expected(&[(VETO_NAME, "no\n")]).doubt(&error).is_some());
    assert_eq!(expected(&[(ERROR_NAME, "another\n")]).doubt(&error), None);
    let idle = result_with_domain(BEFORE);
    let other = BEFORE.replace(">a<", ">b<");
    for expected_change in [
        (DIFF_NAME, "  /domain/title"),
        (XML_NAME, &*other),
        (VETO_NAME, "no"),
        (ERROR_NAME, "trap"),
        (DOCUMENT_NAMES[0], ""),
    ] {
        assert!(
            expected(&[expected_change]).doubt(&idle).is_some(),
            "{expected_change:?}"
        );
    }
    for no_change in [&[][..], &[(DIFF_NAME, "\n")], &[(XML_NAME, BEFORE)]] {
        assert_eq!(expected(no_change).doubt(&idle), None, "{no_change:?}");
    }
    assert_eq!(
        expected(&[(DIFF_NAME, "x")]).doubt(&result_with_domain(&other)),
        None
    );
    let veto = ActualResult::Veto("no".into());
    for expected_change in [(DIFF_NAME, "x"), (DOCUMENT_NAMES[0], "")] {
        assert!(
            expected(&[expected_change]).doubt(&veto).is_some(),
            "{expected_change:?}"
        );
    }
    for no_change in [&[][..], &[(DIFF_NAME, "\n")], &[(VETO_NAME, "other")]] {
        assert_eq!(expected(no_change).doubt(&veto), None, "{no_change:?}");
    }
}

#[test]
fn new_case_without_changes_is_detected() {
    let changed = result_with_domain(&BEFORE.replace(">a<", ">b<"));
    assert!(expected(&[]).is_new_without_changes(&result_with_domain(BEFORE)));
    assert!(!expected(&[]).is_new_without_changes(&changed));
    assert!(!expected(&[]).is_new_without_changes(&ActualResult::Veto("no".into())));
    assert!(!expected(&[(DIFF_NAME, "x")]).is_new_without_changes(&result_with_domain(BEFORE)));
}

#[test]
fn unexpected_document_changes_are_differences() {
    let documents = BTreeMap::from([("user-data".to_owned(), "x\n".to_owned())]);
    let actual = ActualResult::Domain {
        before: BEFORE.to_owned(),
        xml: BEFORE.to_owned(),
        documents,
        is_hook_called: true,
        discarded_failures: Vec::new(),
    };
    assert_eq!(expected(&[(DIFF_NAME, "")]).differences(&actual).len(), 1);
    assert_eq!(expected(&[("user-data", "x")]).differences(&actual), []);
}

#[test]
fn updated_expected_files_match_the_result() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("expected.veto"), "no").unwrap();
    let actual = result_with_domain(&BEFORE.replace(">a<", ">b<"));
    ExpectedFiles::read(dir.path())
        .unwrap()
        .update(dir.path(), &actual)
        .unwrap();
    let updated = ExpectedFiles::read(dir.path()).unwrap();
    assert_eq!(updated.0.keys().collect::<Vec<_>>(), [DIFF_NAME]);
    assert_eq!(updated.differences(&actual), []);
}
