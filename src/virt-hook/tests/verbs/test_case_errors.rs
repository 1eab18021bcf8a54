//! `test`: errors of the inputs of cases, and the files that cases share.

use std::fs;

use super::example_modules::misbehaving_hook;
use super::{VMI, smbios, text, virt_hook, write};

#[test]
fn first_line_about_a_case_is_the_error_in_which_it_ends() {
    let temp_dir = tempfile::tempdir().unwrap();
    let module = misbehaving_hook();
    let acting = |word| {
        VMI.replace(
            "do: nothing",
            &format!("misbehaving.example.com/on-arrival: {word}"),
        )
    };
    for (case, vmi) in [
        (
            "kind",
            "kind: Pod\nmetadata: {name: vm}\nspec: {}\n".to_owned(),
        ),
        ("loops", acting("loop")),
        ("panics", acting("panic")),
        ("quotes", VMI.replace("do: nothing", "usb: 1234")),
        (
            "yaml",
            "metadata:\n  name: vm\n   namespace: ns\n".to_owned(),
        ),
    ] {
        write(temp_dir.path(), &format!("{case}/vmi.yaml"), &vmi);
        write(temp_dir.path(), &format!("{case}/expected.diff"), "");
        // At Shutdown, this module always fails.
        let settings = "hookPoints: [{name: OnDefineDomain}]\n";
        write(temp_dir.path(), &format!("{case}/hook.yaml"), settings);
        let domain = "<domain><name>ns_vm</name><devices><memballoon model='none'><address type='pci'/></memballoon></devices></domain>";
        write(temp_dir.path(), &format!("{case}/domain.xml"), domain);
    }
    let tested = virt_hook(&["test", "--hook", text(&module), text(temp_dir.path())]);
    assert_eq!(tested.code, 1, "{}{}", tested.out, tested.err);
    for line in [
        "ERROR   kind: ",
        "ERROR   loops: ",
        "ERROR   panics: ",
        "ERROR   quotes: vmi.yaml: metadata.annotations: usb is 1234, ",
        "ERROR   yaml: vmi.yaml: the VMI is not valid YAML: ",
    ] {
        assert!(
            tested.out.lines().any(|printed| printed.starts_with(line)),
            "{line}\n{}",
            tested.out
        );
    }
    assert!(tested.out.contains(": an endless loop?"), "{}", tested.out);
    assert!(
        !tested.out.contains("there is no such result") && !tested.out.contains("FAILED"),
        "{}",
        tested.out
    );
    assert!(
        tested
            .err
            .contains("5 of 5 cases end in an unexpected error")
            && !tested.err.contains("--update"),
        "{}",
        tested.err
    );
}

#[test]
fn an_error_in_a_shared_file_is_one_error_of_the_command() {
    let temp_dir = tempfile::tempdir().unwrap();
    let module = smbios();
    for case in ["one", "two"] {
        write(temp_dir.path(), &format!("{case}/vmi.yaml"), VMI);
    }
    for (name, key) in [("policy.yaml", "alow"), ("hook.yaml", "hookPoint")] {
        let file = write(temp_dir.path(), name, &format!("{key}: {{}}\n"));
        let tested = virt_hook(&["test", "--hook", text(&module), text(temp_dir.path())]);
        assert_eq!(tested.code, 2, "{}{}", tested.out, tested.err);
        let position = format!("{name}:1:1: ");
        assert_eq!(tested.err.matches(&position).count(), 1, "{}", tested.err);
        assert_eq!(tested.out, "");
        fs::remove_file(file).unwrap();
    }
}

#[test]
fn cases_share_a_hook_yaml_and_may_have_their_own() {
    let temp_dir = tempfile::tempdir().unwrap();
    let module = smbios();
    write(temp_dir.path(), "shared/vmi.yaml", VMI);
    write(temp_dir.path(), "shared/expected.diff", "");
    write(temp_dir.path(), "own/vmi.yaml", VMI);
    write(temp_dir.path(), "own/hook.yaml", "priority: 1\n");
    let test = ["test", "--hook", text(&module), text(temp_dir.path())];
    virt_hook(&[&test[..], &["--update"]].concat()).success_stdout();
    let expected =
        |case: &str| fs::read_to_string(temp_dir.path().join(case).join("expected.diff"));
    assert!(expected("shared").unwrap().contains("Radical Edward"));

    write(temp_dir.path(), "hook.yaml", "failurePolicy: DryRun\n");
    let tested = virt_hook(&test);
    assert!(
        tested.out.contains("FAILED  shared\n") && tested.out.contains("passed  own\n"),
        "{}{}",
        tested.out,
        tested.err
    );
    // With a wrong name, the file would be read by no case.
    let (named, misnamed) = ("hook.yaml", "hook.yml");
    fs::rename(temp_dir.path().join(named), temp_dir.path().join(misnamed)).unwrap();
    let tested = virt_hook(&test);
    assert_eq!(tested.code, 2, "{}{}", tested.out, tested.err);
    assert!(
        tested.err.contains("hook.yml: it is not read"),
        "{}",
        tested.err
    );
}

#[test]
fn the_last_line_counts_warnings() {
    let temp_dir = tempfile::tempdir().unwrap();
    let module = smbios();
    let vmi = VMI.replace("devices: {}", "devicez: {}");
    write(temp_dir.path(), "typo/vmi.yaml", &vmi);
    let test = ["test", "--hook", text(&module), text(temp_dir.path())];
    virt_hook(&[&test[..], &["--update"]].concat()).success_stdout();
    let tested = virt_hook(&test).success_stdout();
    assert!(
        tested.contains("1 passed, 0 failed, 0 updated, 1 warning, in "),
        "{tested}"
    );
}

#[test]
fn a_hook_that_is_called_at_no_hook_point_is_an_error() {
    let temp_dir = tempfile::tempdir().unwrap();
    let mut bytes = fs::read(misbehaving_hook()).unwrap();
    let find = |bytes: &[u8], from: usize, text: &[u8]| {
        let mut places = bytes[from..].windows(text.len());
        from + places.position(|part| part == text).unwrap()
    };
    let key = b"\"hookPoints\": [";
    let list = find(&bytes, 0, key) + key.len();
    let end = find(&bytes, list, b"]");
    bytes[list..end].fill(b' ');
    let module = temp_dir.path().join("idle.wasm");
    fs::write(&module, bytes).unwrap();
    let cases = temp_dir.path().join("cases");
    write(&cases, "set/vmi.yaml", VMI);
    let error = "is called at no hook point: list one";
    let tested = virt_hook(&["test", "--hook", text(&module), text(&cases)]);
    assert_eq!(tested.code, 1, "{}{}", tested.out, tested.err);
    assert!(tested.out.contains(error), "{}", tested.out);
    let checked = virt_hook(&["check", text(&module), "--without-libvirt"]);
    assert_eq!(checked.code, 1, "{}{}", checked.out, checked.err);
    assert!(checked.out.contains(error), "{}", checked.out);
}
