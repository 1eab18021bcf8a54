//! Hints for misspelt paths: wishes that libvirt's domain format does not have, and files of a similar name.

use std::fs;
use std::path::{Path, PathBuf};

use super::{VMI, smbios, text, virt_hook, vmi, write};

const VALID_PATH: &[u8] = b"/domain/sysinfo/baseBoard/**";
const MISSPELT_PATH: &[u8] = b"/domain/sysnifo/baseBoard/**";
const HINT: &str = "libvirt's domain has no /domain/sysnifo (as of libvirt 12.8): is it /domain/sysinfo/baseBoard/**?";

/// The smbios example with a misspelt wish.
fn misspelt_module(directory: &Path) -> PathBuf {
    let mut bytes = fs::read(smbios()).unwrap();
    let places = bytes.windows(VALID_PATH.len());
    let places = places.enumerate().filter(|(_, part)| *part == VALID_PATH);
    let places: Vec<usize> = places.map(|(at, _)| at).collect();
    assert!(!places.is_empty());
    for at in places {
        bytes[at..at + MISSPELT_PATH.len()].copy_from_slice(MISSPELT_PATH);
    }
    let module = directory.join("smbios.wasm");
    fs::write(&module, bytes).unwrap();
    module
}

#[test]
fn remedy_for_a_misspelt_wish_is_not_the_policy() {
    let temp_dir = tempfile::tempdir().unwrap();
    let module = misspelt_module(temp_dir.path());
    let cases = temp_dir.path().join("cases");
    let vmi = write(&cases, "set/vmi.yaml", VMI);
    write(
        &cases,
        "policy.yaml",
        "allow: {paths: [/domain/os/smbios/**, /domain/sysinfo/baseBoard/**]}\n",
    );
    let tested = virt_hook(&["test", "--hook", text(&module), text(&cases)]);
    assert_eq!(tested.code, 1, "{}{}", tested.out, tested.err);
    assert!(
        tested.out.contains(HINT) && !tested.out.contains("add it there"),
        "{}",
        tested.out
    );
    let shown = virt_hook(&["inspect", text(&module)]).success_stdout();
    assert!(
        shown.contains(&format!("misspelt?    {HINT}\n"))
            && shown.contains(&format!("    # {HINT}\n")),
        "{shown}"
    );

    // Without a policy the misspelt wish is accepted, but the hook's changes are not declared.
    fs::remove_file(cases.join("policy.yaml")).unwrap();
    let checked = virt_hook(&[
        "check",
        text(&module),
        "--vmi",
        text(&vmi),
        "--without-libvirt",
    ]);
    assert_eq!(checked.code, 1, "{}{}", checked.out, checked.err);
    assert!(
        checked
            .out
            .contains(&format!("{}: {HINT}", "/domain/sysnifo/baseBoard/**"))
            && checked
                .out
                .contains("the paths that the module's `describe` declares would have to contain")
            && !checked.out.contains("policy.yaml"),
        "{}",
        checked.out
    );
}

#[test]
fn a_module_and_a_directory_with_a_similar_name_are_named() {
    let temp_dir = tempfile::tempdir().unwrap();
    let module = temp_dir.path().join("usb_device.wasm");
    fs::copy(smbios(), &module).unwrap();
    let cases = temp_dir.path().join("cases");
    write(&cases, "set/vmi.yaml", VMI);
    let wrong = temp_dir.path().join("usb-device.wasm");
    let tested = virt_hook(&["test", "--hook", text(&wrong), text(&cases)]);
    assert_eq!(tested.code, 2, "{}{}", tested.out, tested.err);
    let hint = format!("there is no such file: is it {}?\n", module.display());
    assert!(tested.err.ends_with(&hint), "{}", tested.err);
    let wrong = temp_dir.path().join("case");
    let tested = virt_hook(&["test", "--hook", text(&module), text(&wrong)]);
    assert_eq!(tested.code, 2, "{}{}", tested.out, tested.err);
    let hint = format!("is it {}?", cases.display());
    assert!(tested.err.contains(&hint), "{}", tested.err);
}

#[test]
fn a_directory_in_place_of_a_file_is_said_to_be_one() {
    let temp_dir = tempfile::tempdir().unwrap();
    let directory = temp_dir.path().join("directory");
    fs::create_dir(&directory).unwrap();
    let directory = text(&directory);
    let (module, vmi) = (smbios(), vmi(temp_dir.path()));
    let (module, vmi) = (text(&module), text(&vmi));
    let into = temp_dir.path().join("into");
    let pull = ["pull", "localhost:1/hooks:1", "--into", text(&into)];
    for arguments in [
        &["render", "--vmi", directory][..],
        &["render", "--vmi", vmi, "--options", directory],
        &["render", "--vmi", vmi, "--host", directory],
        &["run", module, "--vmi", vmi, "--pod", directory],
        &["inspect", directory],
        &["wrap", directory, "--out", text(&into)],
        &["sign", module, "--key", directory],
        &["verify", module, "--key", directory],
        &["verify", module, "--key", module, "--bundle", directory],
        &[&pull[..], &["--ca", directory]].concat(),
        &[&pull[..], &["--key", directory]].concat(),
        &["compile", module, "--into", module],
        &["man", "--into", vmi],
    ] {
        let refused = virt_hook(arguments);
        assert_ne!(refused.code, 0, "{arguments:?}");
        let error = refused.err;
        assert!(!error.contains("os error"), "{arguments:?}: {error}");
        assert!(!into.exists(), "{arguments:?}");
    }
}
