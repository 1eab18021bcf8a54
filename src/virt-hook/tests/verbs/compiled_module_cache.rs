//! The cache of compiled modules, which all verbs share.

use std::fs;

use super::{ProgramOutput, program, smbios, text, vmi};

#[test]
fn a_module_is_compiled_once_and_a_damaged_copy_again() {
    let temp_dir = tempfile::tempdir().unwrap();
    let cache = temp_dir.path().join("cache");
    let case = temp_dir.path().join("cases/a");
    vmi(&case);
    fs::write(case.join("expected.diff"), "").unwrap();
    let module = smbios();
    let tested = || {
        let arguments = [
            "test",
            "--hook",
            text(&module),
            text(&case),
            "-v",
            "--update",
        ];
        let output = program()
            .args(arguments)
            .env("XDG_CACHE_HOME", &cache)
            .output();
        let output = ProgramOutput::from(output.unwrap());
        assert_eq!(output.code, 0, "{}{}", output.out, output.err);
        output.err
    };
    let entries = || {
        let mut below = fs::read_dir(cache.join("virt-hook")).unwrap();
        let directory = below.next().unwrap().unwrap().path();
        let entries = fs::read_dir(directory).unwrap();
        let paths = entries.map(|entry| entry.unwrap().path());
        // The functions of the module lie beside it.
        let modules = paths.filter(|path| path.extension().is_none_or(|kind| kind != "functions"));
        modules.collect::<Vec<_>>()
    };
    tested();
    let kept = entries();
    assert_eq!(kept.len(), 1);
    assert!(!tested().contains("damaged"));
    assert_eq!(entries(), kept);
    let code = fs::read(&kept[0]).unwrap();
    fs::write(&kept[0], &code[..code.len() / 2]).unwrap();
    let printed = tested();
    assert!(printed.contains("a kept module is damaged"), "{printed}");
    let [again] = &entries()[..] else {
        panic!("one entry is expected: {:?}", entries());
    };
    assert!(fs::read(again).unwrap().len() > code.len() / 2);
}

/// A module that was not compiled again is known by what it says: the cost of the first run.
#[test]
fn an_unchanged_module_is_compiled_once_for_all_verbs() {
    let temp_dir = tempfile::tempdir().unwrap();
    let module = smbios();
    let vmi = vmi(temp_dir.path());
    let cache = temp_dir.path().join("cache");
    let in_cache = |arguments: &[&str]| -> ProgramOutput {
        let mut command = program();
        command.args(arguments).env("XDG_CACHE_HOME", &cache);
        command.output().unwrap().into()
    };
    let kept = || {
        let dirs = fs::read_dir(cache.join("virt-hook")).unwrap();
        let files = dirs.flat_map(|dir| fs::read_dir(dir.unwrap().path()).unwrap());
        let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    };
    let inspect = ["inspect", text(&module), "--json"];
    let first = in_cache(&inspect).json();
    let entries = kept();
    assert_eq!(entries.len(), 2, "code and cost: {entries:?}");
    let repeated = in_cache(&inspect).json();
    for member in ["compileMillis", "compilePeakMemory"] {
        assert_eq!(repeated["result"][member], first["result"][member]);
    }
    in_cache(&["run", text(&module), "--vmi", text(&vmi)]).ok();
    let checked = in_cache(&["check", text(&module), "--without-libvirt"]).ok();
    let millis = format!("compiling: {} ms", first["result"]["compileMillis"]);
    assert!(checked.contains(&millis), "{millis}: {checked}");
    assert_eq!(kept(), entries, "nothing was compiled again");
}
