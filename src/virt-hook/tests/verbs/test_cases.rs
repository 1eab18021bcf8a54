//! `test`: a folder of cases.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::{POLICY, VMI, smbios, text, virt_hook, write};

const EXPECTED: &str = "  /domain/sysinfo[@type='smbios']/baseBoard/entry[@name='manufacturer']: \
    inserted\n    + <entry name='manufacturer'>Radical Edward</entry>\n";

fn outcomes(json: &Value) -> Vec<(String, String)> {
    let cases = json["result"]["cases"].as_array().unwrap().iter();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    cases
        .map(|case| (text(&case["name"]), text(&case["outcome"])))
        .collect()
}

/// The launcher sets the modes of disks before it calls hooks.
#[test]
fn hooks_see_the_modes_of_disks_in_every_verb() {
    let temp_dir = tempfile::tempdir().unwrap();
    let module = super::served_sidecar::example("disk-tuning-hook");
    let vmi = "metadata:\n  name: vm\n  namespace: ns\n  \
        annotations: {disk-tuning.example.com/cache: writeback}\nspec:\n  domain:\n    \
        memory: {guest: 64Mi}\n    devices: {disks: [{name: d, disk: {bus: virtio}}]}\n  \
        volumes: [{name: d, emptyDisk: {capacity: 1Gi}}]\n";
    let change = "  /domain/devices/disk[target/@dev='vda']/driver/@cache: edited\n    - none\n    + writeback\n";
    let vmi = write(temp_dir.path(), "case/vmi.yaml", vmi);
    write(temp_dir.path(), "case/expected.diff", change);
    virt_hook(&["test", "--hook", text(&module), text(temp_dir.path())]).ok();
    let point = ["--point", "OnDefineDomain"];
    let run = ["run", text(&module), "--vmi", text(&vmi)];
    let ran = virt_hook(&[&run[..], &point].concat()).ok();
    let render = ["render", "--vmi", text(&vmi), "--hook", text(&module)];
    let rendered = virt_hook(&[&render[..], &["--diff"]].concat()).ok();
    for shown in [ran, rendered] {
        assert!(
            shown.contains("- none") && shown.contains("+ writeback"),
            "{shown}"
        );
    }
}

#[test]
fn a_case_can_be_about_the_arrival_of_a_migration() {
    let temp_dir = tempfile::tempdir().unwrap();
    let module = super::check::misbehaving_hook();
    let vmi = VMI.replace("do: nothing", "misbehaving.example.com/writes-reason: ''");
    write(temp_dir.path(), "boots/vmi.yaml", &vmi);
    write(temp_dir.path(), "arrives/vmi.yaml", &vmi);
    let reason = r#"{"reason": "migration-target"}"#;
    let file = write(temp_dir.path(), "arrives/invocation.json", reason);
    for case in ["boots", "arrives"] {
        // At Shutdown, this module always fails.
        write(
            &temp_dir.path().join(case),
            "hook.yaml",
            "hookPoints: [{name: OnDefineDomain}]\n",
        );
    }
    let test = [
        "test",
        "--hook",
        text(&module),
        text(temp_dir.path()),
        "--update",
    ];
    virt_hook(&test).ok();
    for (case, reason) in [
        ("boots", "<description>boot<"),
        ("arrives", "<description>migration-target<"),
    ] {
        let expected = temp_dir.path().join(case).join("expected.diff");
        let expected = fs::read_to_string(expected).unwrap();
        assert!(expected.contains(reason), "{expected}");
    }
    fs::write(&file, r#"{"reason": "shutdown"}"#).unwrap();
    let tested = virt_hook(&["test", "--hook", text(&module), text(temp_dir.path())]);
    assert_eq!(tested.code, 1, "{}", tested.out);
    assert!(tested.out.contains("invocation.json"), "{}", tested.out);
}

#[test]
fn case_report_has_expected_and_actual_output() {
    let temp_dir = tempfile::tempdir().unwrap();
    let module = smbios();
    let file = |name: &str, content: &str| write(temp_dir.path(), name, content);
    file("set/vmi.yaml", VMI);
    file("set/expected.diff", EXPECTED);
    file(
        "plain/vmi.yaml",
        &VMI.replace("Radical Edward", "''")
            .replace("baseBoard", "base"),
    );
    file("plain/expected.diff", "");
    file("wrong/vmi.yaml", VMI);
    file(
        "wrong/expected.diff",
        &EXPECTED.replace("Radical", "Rascal"),
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

    // What the error says in full is written down, and then all pass.
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
    let wrong = fs::read_to_string(temp_dir.path().join("wrong/expected.diff")).unwrap();
    assert_eq!(wrong, EXPECTED);
    let error = fs::read_to_string(temp_dir.path().join("denied/expected.error")).unwrap();
    assert!(
        error.contains(denied) && !error.contains(text(temp_dir.path())),
        "{error}"
    );
    let repeated = virt_hook(&["test", "--hook", text(&module), text(temp_dir.path())]).ok();
    assert!(
        repeated.contains("5 passed, 0 failed, 0 updated"),
        "{repeated}"
    );
}

#[test]
fn refusal_of_cases_says_how_to_write_the_policy_and_is_printed_once() {
    let temp_dir = tempfile::tempdir().unwrap();
    let module = super::served_sidecar::example("qemu-args-hook");
    for case in ["one", "two", "three"] {
        let dir = temp_dir.path().join("my cases").join(case);
        write(&dir, "vmi.yaml", VMI);
        write(&dir, "expected.diff", "");
    }
    let cases = temp_dir.path().join("my cases");
    let tested = virt_hook(&["test", "--hook", text(&module), text(&cases)]);
    assert_eq!(tested.code, 1, "{}{}", tested.out, tested.err);
    let command = format!(
        "virt-hook inspect {} --policy-only > '{}'",
        text(&module),
        text(&cases.join("policy.yaml"))
    );
    assert!(tested.err.contains(&command), "{}", tested.err);
    assert!(
        tested.out.contains("ERROR   one, three, two: ")
            && tested.out.matches("which allow.dangerous").count() == 1,
        "{}",
        tested.out
    );
    let done = Command::new("sh")
        .args(["-ec", &command.replacen("virt-hook", "\"$0\"", 1)])
        .arg(super::program().get_program())
        .status();
    assert!(done.unwrap().success(), "{command}");
    let fixed = virt_hook(&["test", "--hook", text(&module), text(&cases)]);
    assert!(!fixed.out.contains("allow.dangerous"), "{}", fixed.out);

    // A policy that is there is not overwritten.
    write(&cases, "policy.yaml", "allow:\n  config: []\n");
    let tested = virt_hook(&["test", "--hook", text(&module), text(&cases)]);
    assert!(
        tested.err.contains("add to its policy what") && !tested.err.contains(" > "),
        "{}",
        tested.err
    );
}

#[test]
fn an_empty_expectation_is_named_where_the_hook_acts() {
    let temp_dir = tempfile::tempdir().unwrap();
    let module = smbios();
    write(temp_dir.path(), "set/vmi.yaml", VMI);
    write(temp_dir.path(), "set/expected.diff", "");
    let test = ["test", "--hook", text(&module), text(temp_dir.path())];
    let tested = virt_hook(&test);
    assert_eq!(tested.code, 1, "{}{}", tested.out, tested.err);
    let named = "expected.diff: it is empty, so that nothing may change";
    assert!(
        tested.out.contains(named) && tested.out.contains("--update"),
        "{}",
        tested.out
    );
    virt_hook(&[&test[..], &["--update"]].concat()).ok();
    let written = fs::read_to_string(temp_dir.path().join("set/expected.diff")).unwrap();
    assert_eq!(written, EXPECTED);
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
    let tested = virt_hook(&test).ok();
    assert!(tested.contains(note), "{tested}");
    write(temp_dir.path(), "set/vmi.yaml", VMI);
    write(temp_dir.path(), "set/expected.diff", EXPECTED);
    let tested = virt_hook(&test).ok();
    assert!(!tested.contains(note), "{tested}");
}

#[test]
fn cases_share_a_policy_and_may_have_their_own() {
    let temp_dir = tempfile::tempdir().unwrap();
    let module = smbios();
    let file = |name: &str, content: &str| write(temp_dir.path(), name, content);
    let narrow = "allow:\n  paths: [/domain/title]\n";
    let wide = "allow:\n  paths: [/domain/os/smbios/**, /domain/sysinfo/**]\n";
    file("cases/policy.yaml", narrow);
    file("cases/set/vmi.yaml", VMI);
    file("cases/set/expected.diff", EXPECTED);
    file("cases/own/vmi.yaml", VMI);
    file("cases/own/policy.yaml", wide);
    file("cases/own/expected.diff", EXPECTED);
    let wide = file("wide.yaml", wide);
    let cases = temp_dir.path().join("cases");
    let tested = virt_hook(&["test", "--hook", text(&module), text(&cases)]);
    assert!(
        tested.out.contains("passed  own") && tested.out.contains("ERROR   set: "),
        "{}{}",
        tested.out,
        tested.err
    );
    let one = virt_hook(&["test", "--hook", text(&module), text(&cases.join("set"))]);
    assert_eq!(one.code, 1, "{}{}", one.out, one.err);
    // An error is expected on other machines too, and from other directories.
    file("cases/set/expected.error", "");
    fs::remove_file(cases.join("set/expected.diff")).unwrap();
    let update = ["test", "--hook", text(&module), text(&cases), "--update"];
    virt_hook(&update).ok();
    let written = fs::read_to_string(cases.join("set/expected.error")).unwrap();
    assert!(!written.contains(text(temp_dir.path())), "{written}");
    assert!(written.contains("policy.yaml:2:10"), "{written}");
    virt_hook(&["test", "--hook", text(&module), text(&cases.join("set"))]).ok();
    let mut relative = super::program();
    relative.args(["test", "--hook", text(&module), "cases"]);
    let output = relative.current_dir(temp_dir.path()).output().unwrap();
    super::ProgramOutput::from(output).ok();
    file("cases/set/expected.diff", EXPECTED);
    fs::remove_file(cases.join("set/expected.error")).unwrap();
    virt_hook(&[
        "test",
        "--hook",
        text(&module),
        text(&cases),
        "--policy",
        text(&wide),
    ])
    .ok();
    let missing_cases = virt_hook(&[
        "test",
        "--hook",
        text(&module),
        text(&cases),
        "--policy",
        "/gone",
    ]);
    assert_eq!(
        missing_cases.code, 2,
        "{}{}",
        missing_cases.out, missing_cases.err
    );
}

/// An error, and a hook that no longer does anything, are not what an author wants to write down.
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
    file("idle/expected.diff", EXPECTED);
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
        "\n  not written: the case ends in an error",
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
    let kept = fs::read_to_string(temp_dir.path().join("idle/expected.diff")).unwrap();
    assert_eq!(kept, EXPECTED);

    virt_hook(&[&update[..], &["--accept-errors"]].concat()).ok();
    assert!(temp_dir.path().join("broken/expected.error").exists());
    virt_hook(&["test", "--hook", text(&module), text(temp_dir.path())]).ok();
}

#[test]
fn update_reports_that_a_new_case_expects_no_change() {
    let place = tempfile::tempdir().unwrap();
    let module = smbios();
    write(
        place.path(),
        "idle/vmi.yaml",
        &VMI.replace("baseBoard", "base"),
    );
    write(place.path(), "new/vmi.yaml", VMI);
    let arguments = [
        "test",
        "--hook",
        text(&module),
        text(place.path()),
        "--update",
    ];
    let updated = virt_hook(&arguments).ok();
    assert!(
        updated.contains("updated  idle\n  note: writes that nothing changes\n")
            && updated.contains("updated  new\n\n"),
        "{updated}"
    );
}

#[test]
fn a_failure_that_hook_yaml_ignores_fails_a_case_that_does_not_expect_it() {
    let place = tempfile::tempdir().unwrap();
    let module = super::served_sidecar::example("required-label-hook");
    write(place.path(), "refused/vmi.yaml", VMI);
    write(place.path(), "refused/hook.yaml", "failurePolicy: Ignore\n");
    write(place.path(), "refused/expected.diff", "");
    let test = ["test", "--hook", text(&module), text(place.path())];
    let failed = virt_hook(&test);
    assert_eq!(failed.code, 1, "{}{}", failed.out, failed.err);
    for part in [
        "FAILED  refused\n",
        "at PreStart (failurePolicy: Ignore): ",
        "has no label",
    ] {
        assert!(failed.out.contains(part), "{}", failed.out);
    }
    virt_hook(&[&test[..], &["--update", "--accept-errors"]].concat()).ok();
    assert!(place.path().join("refused/expected.error").exists());
    virt_hook(&test).ok();
}

#[test]
fn a_case_in_which_no_hook_is_called_has_a_note() {
    let place = tempfile::tempdir().unwrap();
    let module = super::served_sidecar::example("migration-tuning-hook");
    write(place.path(), "idle/vmi.yaml", VMI);
    write(place.path(), "idle/expected.diff", "");
    let tested = virt_hook(&["test", "--hook", text(&module), text(place.path())]).ok();
    assert!(
        tested.contains("passed  idle\n  note: no hook was called: ")
            && tested.contains("a migration.json"),
        "{tested}"
    );
}

#[test]
fn a_veto_and_cloud_init_documents_are_expected_by_their_texts() {
    let temp_dir = tempfile::tempdir().unwrap();
    let file = |name: &str, content: &str| write(temp_dir.path(), name, content);
    file("veto/vmi.yaml", &VMI.replace("do: nothing", "do: veto"));
    file("veto/policy.yaml", POLICY);
    file("veto/hook.yaml", "hookPoints: [{name: PreStart}]\n");
    file("veto/expected.veto", "licence expired\n");
    let module = super::served_sidecar::every_point();
    virt_hook(&["test", "--hook", text(&module), text(temp_dir.path())]).ok();

    let temp_dir = tempfile::tempdir().unwrap();
    let cloud = VMI.replace(
        "devices: {}\n",
        "devices: {disks: [{name: ci, disk: {bus: virtio}}]}\n",
    ) + "  volumes:\n  - name: ci\n    cloudInitNoCloud: {userData: \"#cloud-config\\n\"}\n";
    write(temp_dir.path(), "ci/vmi.yaml", &cloud);
    let module = super::served_sidecar::example("cloud-init-hook");
    virt_hook(&[
        "test",
        "--hook",
        text(&module),
        text(temp_dir.path()),
        "--update",
    ])
    .ok();
    let written = fs::read_to_string(temp_dir.path().join("ci/expected.user-data")).unwrap();
    assert!(
        written.starts_with("#cloud-config\n") && written.contains("ns/vm"),
        "{written}"
    );
    assert!(!temp_dir.path().join("ci/expected.diff").exists());
    virt_hook(&["test", "--hook", text(&module), text(temp_dir.path())]).ok();
}

#[test]
fn a_case_has_the_inputs_of_one_hook_point() {
    let temp_dir = tempfile::tempdir().unwrap();
    let module = super::served_sidecar::every_point();
    write(temp_dir.path(), "both/vmi.yaml", VMI);
    write(temp_dir.path(), "both/device.xml", "<disk/>");
    write(temp_dir.path(), "both/migration.json", "{}");
    let tested = virt_hook(&["test", "--hook", text(&module), text(temp_dir.path())]);
    assert_eq!(tested.code, 1, "{}{}", tested.out, tested.err);
    assert!(
        tested.out.contains("device.xml and a migration.json"),
        "{}",
        tested.out
    );
}

#[test]
fn files_that_a_test_would_not_read_are_refused() {
    let module = smbios();
    for (file, part) in [
        ("set/expected.network_data", "expected. and one of"),
        ("set/policy.yml", "a case has a policy.yaml"),
        ("policy.yml", "a case has a policy.yaml"),
        ("other/vmi.yml", "a case has a vmi.yaml or vmi.json"),
        ("other/expected.diff", "no vmi.yaml or vmi.json"),
        (
            "other/vm.yaml",
            "other/vm.yaml: it is not read: a case has a vmi.yaml",
        ),
        ("other/vm.yml", "a case has a vmi.yaml or vmi.json"),
        ("other/vm.json", "a case has a vmi.yaml or vmi.json"),
        ("group/one/vmi.yaml", "group/one: it is a case, and not run"),
        (
            "group/more/one/vmi.yaml",
            "more/one: it is a case, and not run",
        ),
    ] {
        let temp_dir = tempfile::tempdir().unwrap();
        write(temp_dir.path(), "set/vmi.yaml", VMI);
        write(temp_dir.path(), "set/expected.diff", EXPECTED);
        let test = || virt_hook(&["test", "--hook", text(&module), text(temp_dir.path())]);
        test().ok();
        write(temp_dir.path(), file, "");
        let tested = test();
        assert_eq!(tested.code, 2, "{file}: {}{}", tested.out, tested.err);
        assert!(tested.err.contains(part), "{file}: {}", tested.err);
    }
}

/// Under no policy, a case would pass that fails under the one that is meant.
#[test]
fn case_file_must_be_a_regular_file() {
    let module = smbios();
    let dangling = |path: &Path| std::os::unix::fs::symlink("nowhere", path).unwrap();
    let directory = |path: &Path| fs::create_dir(path).unwrap();
    let pipe = |path: &Path| {
        let made = Command::new("mkfifo").arg(path).status().unwrap();
        assert!(made.success());
    };
    let makers: [&dyn Fn(&Path); 3] = [&dangling, &directory, &pipe];
    for name in [
        "set/policy.yaml",
        "set/hook.yaml",
        "set/pod.yaml",
        "set/host.json",
        "set/expected.veto",
        "policy.yaml",
    ] {
        for make in makers {
            let place = tempfile::tempdir().unwrap();
            write(place.path(), "set/vmi.yaml", VMI);
            write(place.path(), "set/expected.diff", EXPECTED);
            make(&place.path().join(name));
            for folder in [place.path().to_owned(), place.path().join("set")] {
                let tested = virt_hook(&["test", "--hook", text(&module), text(&folder)]);
                assert_eq!(tested.code, 2, "{name}: {}{}", tested.out, tested.err);
                assert!(tested.err.contains(name), "{name}: {}", tested.err);
            }
        }
    }
    let place = tempfile::tempdir().unwrap();
    write(place.path(), "set/vmi.yaml", VMI);
    write(place.path(), "set/expected.diff", EXPECTED);
    dangling(&place.path().join("other"));
    let tested = virt_hook(&["test", "--hook", text(&module), text(place.path())]);
    assert_eq!(tested.code, 2, "{}{}", tested.out, tested.err);
    assert!(tested.err.contains("other: it is a link"), "{}", tested.err);
}

/// It would be the default's node that the case is about.
#[test]
fn a_misspelt_host_fact_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let module = smbios();
    write(place.path(), "set/vmi.yaml", VMI);
    write(place.path(), "set/expected.diff", EXPECTED);
    write(
        place.path(),
        "set/host.json",
        "{\"archtecture\": \"arm64\"}",
    );
    let tested = virt_hook(&["test", "--hook", text(&module), text(place.path())]);
    assert_eq!(tested.code, 1, "{}{}", tested.out, tested.err);
    let reason = "host.json: there is no host fact archtecture: is it architecture?";
    assert!(tested.out.contains(reason), "{}", tested.out);
    let (vmi, host) = (
        place.path().join("set/vmi.yaml"),
        place.path().join("set/host.json"),
    );
    let rendered = virt_hook(&["render", "--vmi", text(&vmi), "--host", text(&host)]);
    assert_eq!(rendered.code, 2, "{}", rendered.err);
    assert!(rendered.err.contains(reason), "{}", rendered.err);
    write(
        place.path(),
        "set/host.json",
        "{\"architecture\": \"amd64\"}",
    );
    virt_hook(&["test", "--hook", text(&module), text(place.path())]).ok();
}

#[test]
fn a_case_has_one_vmi() {
    let place = tempfile::tempdir().unwrap();
    let module = smbios();
    let item = |name: &str| {
        let text = VMI.replace("name: vm\n", &format!("name: {name}\n"));
        format!("- {}\n", text.trim_end().replace('\n', "\n  "))
    };
    let vmi = |second: &str| {
        let list = format!("kind: List\nitems:\n{}{}", item("a"), item(second));
        write(place.path(), "set/vmi.yaml", &list)
    };
    vmi("b");
    let tested = virt_hook(&["test", "--hook", text(&module), text(place.path())]);
    assert_eq!(tested.code, 1, "{}{}", tested.out, tested.err);
    let stdout = &tested.out;
    assert!(stdout.contains("make a case of each other"), "{stdout}");
    assert!(!stdout.contains("--vmi-name"), "{stdout}");
    let twice = vmi("a");
    for name in [&[][..], &["--vmi-name", "a"], &["--vmi-name", "ns/a"]] {
        let run = virt_hook(&[&["run", text(&module), "--vmi", text(&twice)], name].concat());
        assert_eq!(run.code, 2, "{}", run.err);
        assert!(run.err.contains("the VMI ns/a 2 times"), "{}", run.err);
    }
}

#[test]
fn error_contains_the_path_of_a_non_case_directory() {
    let temp_dir = tempfile::tempdir().unwrap();
    let module = smbios();
    for dir in [text(temp_dir.path()), "/nonexistent"] {
        let printed = virt_hook(&["test", "--hook", text(&module), dir]);
        assert_eq!(printed.code, 2);
        assert!(
            printed.err.contains(dir) && printed.err.lines().count() == 1,
            "{}",
            printed.err
        );
    }
}
