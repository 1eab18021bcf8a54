//! Misspelt and incomplete case directories are refused.
use super::*;

#[test]
fn misspelt_case_files_are_distinguished_from_other_files() {
    for name in [
        "expected.network_data",
        "expected.diffs",
        "expected-diff",
        "Expected.diff",
        "expected",
        "vmi.yml",
        "VMI.yaml",
        "policy.yml",
        "hook.yml",
        "host.yaml",
        "pod.json",
        "invocation.yaml",
    ] {
        assert!(misspelling_advice(name).is_some(), "{name}");
    }
    assert!(
        misspelling_advice("vmi.yml")
            .unwrap()
            .contains("vmi.yaml or vmi.json")
    );
    let known = expected_files::NAMES.map(|name| format!("expected.{name}"));
    let known = known.iter().map(String::as_str).chain(INPUTS);
    for name in known.chain(["README.md", "notes.yaml", "vmi.txt", "domain"]) {
        assert_eq!(misspelling_advice(name), None, "{name}");
    }
}

#[test]
fn a_directory_with_files_of_a_case_and_no_vmi_is_refused() {
    let temp_dir = tempfile::tempdir().unwrap();
    let write = |name: &str| fs::write(temp_dir.path().join(name), "").unwrap();
    write("README.md");
    write(".expected.diff.swp");
    write("expected.dif~");
    assert!(!is_case(temp_dir.path()).unwrap());
    write("expected.diff");
    let error = is_case(temp_dir.path()).unwrap_err().to_string();
    assert!(error.contains("no vmi.yaml"), "{error}");
    write("vmi.yaml");
    assert!(is_case(temp_dir.path()).unwrap());
    // The VirtualMachine of the VMI may lie beside it.
    write("vm.yaml");
    assert!(is_case(temp_dir.path()).unwrap());
    write("vmi.json");
    assert!(is_case(temp_dir.path()).is_err());
}
