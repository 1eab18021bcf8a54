//! The cache of compiled modules, which all verbs share. The printed compile cost shows whether a module was compiled
//! again.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{ProgramOutput, program, smbios, text, vmi};

struct HookWithCache {
    temp_dir: tempfile::TempDir,
    module: PathBuf,
    vmi: PathBuf,
}

impl HookWithCache {
    fn new() -> Self {
        let temp_dir = tempfile::tempdir().unwrap();
        let (module, vmi) = (temp_dir.path().join("hook.wasm"), vmi(temp_dir.path()));
        fs::copy(smbios(), &module).unwrap();
        Self {
            temp_dir,
            module,
            vmi,
        }
    }

    fn run(&self, arguments: &[&str]) -> ProgramOutput {
        let mut command = program();
        command
            .args(arguments)
            .env("XDG_CACHE_HOME", self.temp_dir.path().join("cache"));
        command.output().unwrap().into()
    }

    /// Runs the hook, which compiles it.
    fn run_hook(&self) {
        let output = self.run(&["run", text(&self.module), "--vmi", text(&self.vmi)]);
        output.success_stdout();
    }

    fn inspect(&self) -> Value {
        self.run(&["inspect", text(&self.module), "--json"])
            .result()
    }

    fn check(&self) -> String {
        self.run(&["check", text(&self.module), "--without-libvirt"])
            .success_stdout()
    }

    /// Changes the module as a build does: a custom section is added.
    fn rebuild(&self) {
        let mut bytes = fs::read(&self.module).unwrap();
        bytes.extend(b"\0\x03\x01xy");
        fs::write(&self.module, bytes).unwrap();
    }

    fn compiled(&self) -> Vec<String> {
        let cache = self.temp_dir.path().join("cache/virt-hook");
        let dirs = fs::read_dir(cache).unwrap();
        let files = dirs.flat_map(|dir| fs::read_dir(dir.unwrap().path()).unwrap());
        let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names
            .filter(|name| Path::new(name).extension().is_some_and(|e| e == "cwasm"))
            .collect();
        names.sort();
        names
    }
}

/// The text in the report of `check` about a compilation of the duration that `inspect` reports.
fn compiling(inspected: &Value) -> String {
    format!("compiling: {} ms and ", inspected["compileMillis"])
}

#[test]
fn an_unchanged_module_is_compiled_once_for_all_verbs() {
    let hook = HookWithCache::new();
    hook.run_hook();
    let compiled = hook.compiled();
    assert_eq!(compiled.len(), 1, "{compiled:?}");
    let (first, repeated) = (hook.inspect(), hook.inspect());
    for member in ["compileMillis", "compilePeakMemory"] {
        assert_eq!(repeated[member], first[member], "{member}");
    }
    let checked = hook.check();
    let line = checked.lines().find(|line| line.contains("compiling"));
    let line = line.unwrap_or_default();
    assert!(
        line.contains(&compiling(&first))
            && line.contains("MiB of memory (measured at the first compilation);"),
        "{checked}"
    );
    assert_eq!(hook.compiled(), compiled);
}

#[test]
fn only_the_first_compilation_of_a_file_is_measured_by_check() {
    let hook = HookWithCache::new();
    let checked = hook.check();
    assert!(!checked.contains("measured at"), "{checked}");
    let first = hook.inspect();
    hook.rebuild();
    // Most functions are in the cache.
    let checked = hook.check();
    assert!(
        checked.contains(&compiling(&first))
            && checked.contains("(measured at the last full compilation of this file)"),
        "{checked}"
    );
    assert_eq!(hook.compiled().len(), 2);
    assert_ne!(hook.inspect()["sha256"], first["sha256"]);
    assert_eq!(hook.inspect()["compileMillis"], first["compileMillis"]);
}

#[test]
fn functions_of_an_earlier_build_are_used_by_every_verb() {
    let hook = HookWithCache::new();
    hook.run_hook();
    for _ in 0..2 {
        hook.rebuild();
        hook.run_hook();
        let checked = hook.check();
        assert!(
            checked.contains("(measured at the last full compilation of this file)"),
            "{checked}"
        );
    }
    assert_eq!(hook.compiled().len(), 3);
}

#[test]
fn a_lost_cost_is_measured_again() {
    let hook = HookWithCache::new();
    hook.run_hook();
    let costs = fs::read_dir(hook.temp_dir.path().join("cache/virt-hook")).unwrap();
    let files = costs.flat_map(|dir| fs::read_dir(dir.unwrap().path()).unwrap());
    for file in files.map(|file| file.unwrap().path()) {
        if file.extension().is_some_and(|kind| kind == "cost") {
            fs::remove_file(file).unwrap();
        }
    }
    let checked = hook.check();
    assert!(!checked.contains("measured at"), "{checked}");
    assert!(hook.check().contains("(measured at the first compilation)"));
}

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
        let mut directories = fs::read_dir(cache.join("virt-hook")).unwrap();
        let directory = directories.next().unwrap().unwrap().path();
        let entries = fs::read_dir(directory).unwrap();
        let paths = entries.map(|entry| entry.unwrap().path());
        // The directory also has the module's functions and its compile cost.
        let modules = paths.filter(|path| path.extension().is_some_and(|kind| kind == "cwasm"));
        modules.collect::<Vec<_>>()
    };
    tested();
    let kept_entries = entries();
    assert_eq!(kept_entries.len(), 1);
    assert!(!tested().contains("damaged"));
    assert_eq!(entries(), kept_entries);
    let code = fs::read(&kept_entries[0]).unwrap();
    fs::write(&kept_entries[0], &code[..code.len() / 2]).unwrap();
    let printed = tested();
    assert!(printed.contains("a kept module is damaged"), "{printed}");
    let [again] = &entries()[..] else {
        panic!("one entry is expected: {:?}", entries());
    };
    assert!(fs::read(again).unwrap().len() > code.len() / 2);
}
