//! `test --update`.

use std::fs;

use super::test_expectations::EXPECTED_DIFF;
use super::{VMI, smbios, text, virt_hook, write};

/// An author usually does not want to record an error, or that a hook no longer does anything.
#[test]
fn update_records_errors_and_empty_diffs_only_on_request() {
    let temp_dir = tempfile::tempdir().unwrap();
    let module = smbios();
    let file = |name: &str, content: &str| write(temp_dir.path(), name, content);
    file(
        "broken/vmi.yaml",
        "metadata: {name: vm}\nspec: {volumes: 7}\n",
    );
    file("idle/vmi.yaml", &VMI.replace("baseBoard", "base"));
    file("idle/expected.diff", EXPECTED_DIFF);
    file("new/vmi.yaml", VMI);
    let update = [
        "test",
        "--hook",
        text(&module),
        text(temp_dir.path()),
        "--update",
    ];
    let updated = virt_hook(&update);
    assert_eq!(updated.code, 1, "{}{}", updated.out, updated.err);
    for part in [
        "ERROR   broken: ",
        "\n  not written: the case ends in an unexpected error",
        "FAILED  idle\n  not written: the hook does nothing here",
        "0 passed, 2 failed, 1 updated",
    ] {
        assert!(updated.out.contains(part), "{part}: {}", updated.out);
    }
    assert!(
        updated.err.contains("2 of 3 cases were NOT written")
            && updated.err.contains("--accept-errors"),
        "{}",
        updated.err
    );
    assert!(!temp_dir.path().join("broken/expected.error").exists());
    let idle_diff = fs::read_to_string(temp_dir.path().join("idle/expected.diff")).unwrap();
    assert_eq!(idle_diff, EXPECTED_DIFF);

    virt_hook(&[&update[..], &["--accept-errors"]].concat()).success_stdout();
    assert!(temp_dir.path().join("broken/expected.error").exists());
    virt_hook(&["test", "--hook", text(&module), text(temp_dir.path())]).success_stdout();
}

#[test]
fn update_reports_that_a_new_case_expects_no_change() {
    let temp_dir = tempfile::tempdir().unwrap();
    let module = smbios();
    write(
        temp_dir.path(),
        "idle/vmi.yaml",
        &VMI.replace("baseBoard", "base"),
    );
    write(temp_dir.path(), "new/vmi.yaml", VMI);
    let arguments = [
        "test",
        "--hook",
        text(&module),
        text(temp_dir.path()),
        "--update",
    ];
    let updated = virt_hook(&arguments).success_stdout();
    assert!(
        updated.contains("updated  idle\n  note: writes that nothing changes\n")
            && updated.contains("updated  new\n\n"),
        "{updated}"
    );
}
