//! `test`: the files of a case, and wrong ones that are refused.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::example_modules::hook_at_every_point;
use super::test_expectations::EXPECTED_DIFF;
use super::{VMI, smbios, text, virt_hook, write};

#[test]
fn a_case_has_the_inputs_of_one_hook_point() {
    let temp_dir = tempfile::tempdir().unwrap();
    let module = hook_at_every_point();
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
fn misnamed_and_misplaced_case_files_are_refused() {
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
        ("group/one/vmi.yaml", "group/one: this case is not run"),
        ("group/more/one/vmi.yaml", "more/one: this case is not run"),
    ] {
        let temp_dir = tempfile::tempdir().unwrap();
        write(temp_dir.path(), "set/vmi.yaml", VMI);
        write(temp_dir.path(), "set/expected.diff", EXPECTED_DIFF);
        let test = || virt_hook(&["test", "--hook", text(&module), text(temp_dir.path())]);
        test().success_stdout();
        write(temp_dir.path(), file, "");
        let tested = test();
        assert_eq!(tested.code, 2, "{file}: {}{}", tested.out, tested.err);
        assert!(tested.err.contains(part), "{file}: {}", tested.err);
    }
}

/// Without the intended policy, a case would pass that fails with it.
#[test]
fn case_file_must_be_a_regular_file() {
    let module = smbios();
    let dangling = |path: &Path| std::os::unix::fs::symlink("nowhere", path).unwrap();
    let directory = |path: &Path| fs::create_dir(path).unwrap();
    let pipe = |path: &Path| {
        let status = Command::new("mkfifo").arg(path).status().unwrap();
        assert!(status.success());
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
            let temp_dir = tempfile::tempdir().unwrap();
            write(temp_dir.path(), "set/vmi.yaml", VMI);
            write(temp_dir.path(), "set/expected.diff", EXPECTED_DIFF);
            make(&temp_dir.path().join(name));
            for directory in [temp_dir.path().to_owned(), temp_dir.path().join("set")] {
                let tested = virt_hook(&["test", "--hook", text(&module), text(&directory)]);
                assert_eq!(tested.code, 2, "{name}: {}{}", tested.out, tested.err);
                assert!(tested.err.contains(name), "{name}: {}", tested.err);
            }
        }
    }
    let case_dir = tempfile::tempdir().unwrap();
    write(case_dir.path(), "set/vmi.yaml", VMI);
    write(case_dir.path(), "set/expected.diff", EXPECTED_DIFF);
    dangling(&case_dir.path().join("other"));
    let tested = virt_hook(&["test", "--hook", text(&module), text(case_dir.path())]);
    assert_eq!(tested.code, 2, "{}{}", tested.out, tested.err);
    assert!(tested.err.contains("other: it is a link"), "{}", tested.err);
}

/// The case would be run with the default node.
#[test]
fn a_misspelt_host_fact_is_refused() {
    let temp_dir = tempfile::tempdir().unwrap();
    let module = smbios();
    write(temp_dir.path(), "set/vmi.yaml", VMI);
    write(temp_dir.path(), "set/expected.diff", EXPECTED_DIFF);
    write(
        temp_dir.path(),
        "set/host.json",
        "{\"archtecture\": \"arm64\"}",
    );
    let tested = virt_hook(&["test", "--hook", text(&module), text(temp_dir.path())]);
    assert_eq!(tested.code, 1, "{}{}", tested.out, tested.err);
    let reason = "host.json: there is no host fact archtecture: is it architecture?";
    assert!(tested.out.contains(reason), "{}", tested.out);
    let (vmi, host) = (
        temp_dir.path().join("set/vmi.yaml"),
        temp_dir.path().join("set/host.json"),
    );
    let rendered = virt_hook(&["render", "--vmi", text(&vmi), "--host", text(&host)]);
    assert_eq!(rendered.code, 2, "{}", rendered.err);
    assert!(rendered.err.contains(reason), "{}", rendered.err);
    write(
        temp_dir.path(),
        "set/host.json",
        "{\"architecture\": \"amd64\"}",
    );
    virt_hook(&["test", "--hook", text(&module), text(temp_dir.path())]).success_stdout();
}

#[test]
fn a_case_has_one_vmi() {
    let temp_dir = tempfile::tempdir().unwrap();
    let module = smbios();
    let item = |name: &str| {
        let text = VMI.replace("name: vm\n", &format!("name: {name}\n"));
        format!("- {}\n", text.trim_end().replace('\n', "\n  "))
    };
    let vmi = |second: &str| {
        let list = format!("kind: List\nitems:\n{}{}", item("a"), item(second));
        write(temp_dir.path(), "set/vmi.yaml", &list)
    };
    vmi("b");
    let tested = virt_hook(&["test", "--hook", text(&module), text(temp_dir.path())]);
    assert_eq!(tested.code, 1, "{}{}", tested.out, tested.err);
    let stdout = &tested.out;
    assert!(
        stdout.contains("make a case of each of the others"),
        "{stdout}"
    );
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
