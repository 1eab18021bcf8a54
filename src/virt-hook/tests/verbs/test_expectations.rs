//! `test`: the comparison with expected results.

use std::fs;

use serde_json::Value;

use super::example_modules::{EVERY_POINT_POLICY, example, hook_at_every_point};
use super::{VMI, smbios, text, virt_hook, write};

/// The expected.diff of the smbios example on [`VMI`].
pub(super) const EXPECTED_DIFF: &str = "  /domain/sysinfo[@type='smbios']/baseBoard/entry[@name='manufacturer']: \
    inserted\n    + <entry name='manufacturer'>Radical Edward</entry>\n";

fn outcomes(json: &Value) -> Vec<(String, String)> {
    let cases = json["result"]["cases"].as_array().unwrap().iter();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    cases
        .map(|case| (text(&case["name"]), text(&case["outcome"])))
        .collect()
}

#[test]
fn case_report_has_expected_and_actual_output() {
    let temp_dir = tempfile::tempdir().unwrap();
    let module = smbios();
    let file = |name: &str, content: &str| write(temp_dir.path(), name, content);
    file("set/vmi.yaml", VMI);
    file("set/expected.diff", EXPECTED_DIFF);
    file(
        "plain/vmi.yaml",
        &VMI.replace("Radical Edward", "''")
            .replace("baseBoard", "base"),
    );
    file("plain/expected.diff", "");
    file("wrong/vmi.yaml", VMI);
    file(
        "wrong/expected.diff",
        &EXPECTED_DIFF.replace("Radical", "Rascal"),
    );
    file("open/vmi.yaml", VMI);
    file("denied/vmi.yaml", VMI);
    file("denied/policy.yaml", "allow:\n  paths: [/domain/title]\n");
    let denied =
        "it wants the path \"/domain/os/smbios/**\", which allow.paths of policy.yaml:2:10";
    file("denied/expected.error", denied);
    file("notes/README.md", "not a case");

    let tested = virt_hook(&["test", "--hook", text(&module), text(temp_dir.path())]);
    assert_eq!(tested.code, 1, "{}{}", tested.out, tested.err);
    assert!(
        tested
            .out
            .contains("-    + <entry name='manufacturer'>Rascal Edward</entry>\n")
            && tested
                .out
                .contains("+    + <entry name='manufacturer'>Radical Edward</entry>\n")
            && tested.out.contains("2 passed, 3 failed, 0 updated"),
        "{}",
        tested.out
    );
    assert!(tested.err.contains("--update"), "{}", tested.err);

    // `--update` writes the full error, and then all cases pass.
    let update = [
        "test",
        "--hook",
        text(&module),
        text(temp_dir.path()),
        "--update",
        "--json",
    ];
    let updated = virt_hook(&update);
    let outcomes = outcomes(&updated.json());
    let updated = outcomes.iter().filter(|(_, outcome)| outcome == "updated");
    assert_eq!(updated.count(), 3, "{outcomes:?}");
    let wrong_diff = fs::read_to_string(temp_dir.path().join("wrong/expected.diff")).unwrap();
    assert_eq!(wrong_diff, EXPECTED_DIFF);
    let error = fs::read_to_string(temp_dir.path().join("denied/expected.error")).unwrap();
    assert!(
        error.contains(denied) && !error.contains(text(temp_dir.path())),
        "{error}"
    );
    let repeated =
        virt_hook(&["test", "--hook", text(&module), text(temp_dir.path())]).success_stdout();
    assert!(
        repeated.contains("5 passed, 0 failed, 0 updated"),
        "{repeated}"
    );
}

#[test]
fn an_empty_expected_diff_is_reported_if_the_hook_acts() {
    let temp_dir = tempfile::tempdir().unwrap();
    let module = smbios();
    write(temp_dir.path(), "set/vmi.yaml", VMI);
    write(temp_dir.path(), "set/expected.diff", "");
    let test = ["test", "--hook", text(&module), text(temp_dir.path())];
    let tested = virt_hook(&test);
    assert_eq!(tested.code, 1, "{}{}", tested.out, tested.err);
    let message = "expected.diff: it is empty, so nothing may change";
    assert!(
        tested.out.contains(message) && tested.out.contains("--update"),
        "{}",
        tested.out
    );
    virt_hook(&[&test[..], &["--update"]].concat()).success_stdout();
    let written = fs::read_to_string(temp_dir.path().join("set/expected.diff")).unwrap();
    assert_eq!(written, EXPECTED_DIFF);
}

#[test]
fn cases_in_which_the_hook_never_acts_have_a_note() {
    let temp_dir = tempfile::tempdir().unwrap();
    let module = smbios();
    let idle = VMI.replace("baseBoard", "base");
    write(temp_dir.path(), "idle/vmi.yaml", &idle);
    write(temp_dir.path(), "idle/expected.diff", "");
    let test = ["test", "--hook", text(&module), text(temp_dir.path())];
    let note = "note: no case shows what the hook does";
    let tested = virt_hook(&test).success_stdout();
    assert!(tested.contains(note), "{tested}");
    write(temp_dir.path(), "set/vmi.yaml", VMI);
    write(temp_dir.path(), "set/expected.diff", EXPECTED_DIFF);
    let tested = virt_hook(&test).success_stdout();
    assert!(!tested.contains(note), "{tested}");
}

#[test]
fn a_failure_that_hook_yaml_ignores_fails_a_case_that_does_not_expect_it() {
    let temp_dir = tempfile::tempdir().unwrap();
    let module = example("required-label-hook");
    write(temp_dir.path(), "refused/vmi.yaml", VMI);
    write(
        temp_dir.path(),
        "refused/hook.yaml",
        "failurePolicy: Ignore\n",
    );
    write(temp_dir.path(), "refused/expected.diff", "");
    let test = ["test", "--hook", text(&module), text(temp_dir.path())];
    let failed = virt_hook(&test);
    assert_eq!(failed.code, 1, "{}{}", failed.out, failed.err);
    for part in [
        "FAILED  refused\n",
        "at PreStart (failurePolicy: Ignore): ",
        "has no label",
    ] {
        assert!(failed.out.contains(part), "{}", failed.out);
    }
    virt_hook(&[&test[..], &["--update", "--accept-errors"]].concat()).success_stdout();
    assert!(temp_dir.path().join("refused/expected.error").exists());
    virt_hook(&test).success_stdout();
}

#[test]
fn a_case_in_which_no_hook_is_called_has_a_note() {
    let temp_dir = tempfile::tempdir().unwrap();
    let module = example("migration-tuning-hook");
    write(temp_dir.path(), "idle/vmi.yaml", VMI);
    write(temp_dir.path(), "idle/expected.diff", "");
    let tested =
        virt_hook(&["test", "--hook", text(&module), text(temp_dir.path())]).success_stdout();
    assert!(
        tested.contains("passed  idle\n  note: no hook was called: ")
            && tested.contains("a migration.json"),
        "{tested}"
    );
}

#[test]
fn vetoes_and_cloud_init_documents_are_compared_with_expected_texts() {
    let temp_dir = tempfile::tempdir().unwrap();
    let file = |name: &str, content: &str| write(temp_dir.path(), name, content);
    file("veto/vmi.yaml", &VMI.replace("do: nothing", "do: veto"));
    file("veto/policy.yaml", EVERY_POINT_POLICY);
    file("veto/hook.yaml", "hookPoints: [{name: PreStart}]\n");
    file("veto/expected.veto", "licence expired\n");
    let module = hook_at_every_point();
    virt_hook(&["test", "--hook", text(&module), text(temp_dir.path())]).success_stdout();

    let temp_dir = tempfile::tempdir().unwrap();
    let cloud = VMI.replace(
        "devices: {}\n",
        "devices: {disks: [{name: ci, disk: {bus: virtio}}]}\n",
    ) + "  volumes:\n  - name: ci\n    cloudInitNoCloud: {userData: \"#cloud-config\\n\"}\n";
    write(temp_dir.path(), "ci/vmi.yaml", &cloud);
    let module = example("cloud-init-hook");
    virt_hook(&[
        "test",
        "--hook",
        text(&module),
        text(temp_dir.path()),
        "--update",
    ])
    .success_stdout();
    let written = fs::read_to_string(temp_dir.path().join("ci/expected.user-data")).unwrap();
    assert!(
        written.starts_with("#cloud-config\n") && written.contains("ns/vm"),
        "{written}"
    );
    assert!(!temp_dir.path().join("ci/expected.diff").exists());
    virt_hook(&["test", "--hook", text(&module), text(temp_dir.path())]).success_stdout();
}
