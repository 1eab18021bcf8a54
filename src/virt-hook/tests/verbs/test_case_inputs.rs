//! `test`: the inputs of cases: driver modes, reason of the call, policy.

use std::fs;
use std::process::Command;

use super::test_expectations::EXPECTED_DIFF;
use super::{VMI, smbios, text, virt_hook, write};

/// The launcher sets the driver modes of disks before it calls hooks.
#[test]
fn hooks_see_the_driver_modes_of_disks_in_every_verb() {
    let temp_dir = tempfile::tempdir().unwrap();
    let module = super::example_modules::example("disk-tuning-hook");
    let vmi = "metadata:\n  name: vm\n  namespace: ns\n  \
        annotations: {disk-tuning.example.com/cache: writeback}\nspec:\n  domain:\n    \
        memory: {guest: 64Mi}\n    devices: {disks: [{name: d, disk: {bus: virtio}}]}\n  \
        volumes: [{name: d, emptyDisk: {capacity: 1Gi}}]\n";
    let change = "  /domain/devices/disk[target/@dev='vda']/driver/@cache: edited\n    - none\n    + writeback\n";
    let vmi = write(temp_dir.path(), "case/vmi.yaml", vmi);
    write(temp_dir.path(), "case/expected.diff", change);
    virt_hook(&["test", "--hook", text(&module), text(temp_dir.path())]).success_stdout();
    let point = ["--point", "OnDefineDomain"];
    let run = ["run", text(&module), "--vmi", text(&vmi)];
    let run_output = virt_hook(&[&run[..], &point].concat()).success_stdout();
    let render = ["render", "--vmi", text(&vmi), "--hook", text(&module)];
    let rendered = virt_hook(&[&render[..], &["--diff"]].concat()).success_stdout();
    for shown in [run_output, rendered] {
        assert!(
            shown.contains("- none") && shown.contains("+ writeback"),
            "{shown}"
        );
    }
}

#[test]
fn a_case_can_be_about_the_target_of_a_migration() {
    let temp_dir = tempfile::tempdir().unwrap();
    let module = super::example_modules::misbehaving_hook();
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
    virt_hook(&test).success_stdout();
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
fn refusal_of_cases_says_how_to_write_the_policy_and_is_printed_once() {
    let temp_dir = tempfile::tempdir().unwrap();
    let module = super::example_modules::example("qemu-args-hook");
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
    let status = Command::new("sh")
        .args(["-ec", &command.replacen("virt-hook", "\"$0\"", 1)])
        .arg(super::program().get_program())
        .status();
    assert!(status.unwrap().success(), "{command}");
    let fixed = virt_hook(&["test", "--hook", text(&module), text(&cases)]);
    assert!(!fixed.out.contains("allow.dangerous"), "{}", fixed.out);

    // An existing policy is not overwritten.
    write(&cases, "policy.yaml", "allow:\n  config: []\n");
    let tested = virt_hook(&["test", "--hook", text(&module), text(&cases)]);
    assert!(
        tested.err.contains("add to its policy what") && !tested.err.contains(" > "),
        "{}",
        tested.err
    );
}

#[test]
fn cases_share_a_policy_and_may_have_their_own() {
    let temp_dir = tempfile::tempdir().unwrap();
    let module = smbios();
    let file = |name: &str, content: &str| write(temp_dir.path(), name, content);
    let narrow = "allow:\n  paths: [/domain/title]\n";
    let wide_policy = "allow:\n  paths: [/domain/os/smbios/**, /domain/sysinfo/baseBoard/**]\n";
    file("cases/policy.yaml", narrow);
    file("cases/set/vmi.yaml", VMI);
    file("cases/set/expected.diff", EXPECTED_DIFF);
    file("cases/own/vmi.yaml", VMI);
    file("cases/own/policy.yaml", wide_policy);
    file("cases/own/expected.diff", EXPECTED_DIFF);
    let wide_policy = file("wide.yaml", wide_policy);
    let cases = temp_dir.path().join("cases");
    let tested = virt_hook(&["test", "--hook", text(&module), text(&cases)]);
    assert!(
        tested.out.contains("passed  own") && tested.out.contains("ERROR   set: "),
        "{}{}",
        tested.out,
        tested.err
    );
    let single_case = virt_hook(&["test", "--hook", text(&module), text(&cases.join("set"))]);
    assert_eq!(
        single_case.code, 1,
        "{}{}",
        single_case.out, single_case.err
    );
    // The expected error is the same on other machines and from other directories.
    file("cases/set/expected.error", "");
    fs::remove_file(cases.join("set/expected.diff")).unwrap();
    let update = ["test", "--hook", text(&module), text(&cases), "--update"];
    virt_hook(&update).success_stdout();
    let written = fs::read_to_string(cases.join("set/expected.error")).unwrap();
    assert!(!written.contains(text(temp_dir.path())), "{written}");
    assert!(written.contains("policy.yaml:2:10"), "{written}");
    virt_hook(&["test", "--hook", text(&module), text(&cases.join("set"))]).success_stdout();
    let mut relative = super::program();
    relative.args(["test", "--hook", text(&module), "cases"]);
    let output = relative.current_dir(temp_dir.path()).output().unwrap();
    super::ProgramOutput::from(output).success_stdout();
    file("cases/set/expected.diff", EXPECTED_DIFF);
    fs::remove_file(cases.join("set/expected.error")).unwrap();
    virt_hook(&[
        "test",
        "--hook",
        text(&module),
        text(&cases),
        "--policy",
        text(&wide_policy),
    ])
    .success_stdout();
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
