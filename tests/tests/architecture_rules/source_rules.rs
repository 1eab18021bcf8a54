//! Rules for the sources of crates: no file system in pure crates, `unsafe` in few places, typed errors, tests of
//! hooks.

use std::path::{Path, PathBuf};

use tests::binaries::workspace;

use crate::PURE_CRATES;
use crate::workspace_members::members;

/// The only file outside of `src/libvirt` and generated code that has `unsafe`, and how often.
const ARTIFACT_LOAD: (&str, usize) = ("src/hook-host/src/wasm/artifact_cache.rs", 1);
/// wit-bindgen generates code that passes pointers, as the canonical ABI does.
const GENERATED_BINDINGS: &str = "hooks-sdk/src/bindings/generated.rs";

#[test]
fn unsafe_code_is_only_in_libvirt_the_artifact_load_and_generated_bindings() {
    let mut found = Vec::new();
    for (name, member) in members() {
        if name == "virt-launcher-libvirt" {
            continue;
        }
        for (file, source) in sources(&member.directory.join("src")) {
            let file = file.strip_prefix(workspace()).unwrap();
            let count = count_unsafe(&source);
            if count > 0 && file != Path::new(GENERATED_BINDINGS) {
                found.push((file.to_str().unwrap().to_owned(), count));
            }
        }
    }
    let (file, count) = ARTIFACT_LOAD;
    assert_eq!(found, [(file.to_owned(), count)]);
}

#[test]
fn every_form_of_unsafe_is_counted() {
    for code in [
        "unsafe { f() }",
        "unsafe{f()}",
        "let x = unsafe",
        "pub unsafe fn f() {}",
        "unsafe trait T {}",
        "unsafe impl T for U {}",
        "unsafe extern \"C\" { fn f(); }",
        "#[unsafe(no_mangle)]",
        "#[unsafe (no_mangle)]",
    ] {
        assert_eq!(count_unsafe(code), 1, "{code}");
    }
    assert_eq!(count_unsafe("unsafe { f() }; unsafe { g() }"), 2);
    for code in [
        "// unsafe { f() }",
        "#![allow(unsafe_code)]",
        "#[allow(unused_unsafe)]",
        "[\"unsafe\", \"use\"]",
        "options.unsafe_migration",
    ] {
        assert_eq!(count_unsafe(code), 0, "{code}");
    }
}

/// How often the keyword `unsafe` is in the code: outside of line comments, and not as a whole string.
fn count_unsafe(source: &str) -> usize {
    const KEYWORD: &str = "unsafe";
    let is_of_name = |c: char| c.is_alphanumeric() || c == '_' || c == '"';
    let in_line = |line: &str| {
        let code = line.split("//").next().unwrap_or_default();
        let keywords = code.match_indices(KEYWORD).filter(|(index, _)| {
            !code[..*index].ends_with(is_of_name)
                && !code[index + KEYWORD.len()..].starts_with(is_of_name)
        });
        keywords.count()
    };
    source.lines().map(in_line).sum()
}

/// Directories with files `x/mod.rs` from before the rule that a module's file is `x.rs`.
const WITH_MOD_FILES: [&str; 7] = [
    "src/domain/src",
    "src/hook-host/src/collect",
    "src/hook-host/src/invoke",
    "src/hook-host/src/serve",
    "src/hook-host/src/wasm",
    "src/kubevirt-api/src",
    "src/launcher/src/process_lifecycle",
];

#[test]
fn a_modules_file_is_beside_its_directory() {
    let mut found = Vec::new();
    for (_, member) in members() {
        let src = member.directory.join("src");
        if !src.starts_with(workspace().join("src")) {
            continue;
        }
        let files = sources(&src).into_iter().map(|(file, _)| file);
        let files = files.filter(|file| file.ends_with("mod.rs"));
        found.extend(files.map(|file| file.strip_prefix(workspace()).unwrap().to_owned()));
    }
    for directory in WITH_MOD_FILES {
        let count = found.len();
        found.retain(|file| !file.starts_with(directory));
        assert!(found.len() < count, "{directory} has no mod.rs any more");
    }
    assert!(found.is_empty(), "to be x.rs beside x/: {found:?}");
}

/// Everything else of the hook host calls modules through `HookBody`, and its policy knows descriptions.
#[test]
fn wasmtime_is_named_only_in_the_hook_hosts_module_wasm() {
    let src = workspace().join("src/hook-host/src");
    for (file, source) in sources(&src) {
        let is_named = source.lines().any(|line| {
            let code = line.split("//").next().unwrap_or_default();
            code.contains("wasmtime::") || code.contains("wasmtime_wasi::")
        });
        let is_in_wasm = file.strip_prefix(&src).unwrap_or(&file).starts_with("wasm");
        assert!(!is_named || is_in_wasm, "{} names wasmtime", file.display());
    }
}

/// A caller cannot distinguish the cases of an error that is a `String`.
#[test]
fn public_functions_of_libraries_have_typed_errors() {
    let mut found = Vec::new();
    for (_, member) in members() {
        let src = member.directory.join("src");
        // The tests' crate has only test code.
        if !src.join("lib.rs").is_file() || member.directory.ends_with("tests") {
            continue;
        }
        for (file, source) in sources(&src) {
            found.extend(untyped_errors(&source).map(|line| format!("{}: {line}", file.display())));
        }
    }
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn untyped_errors_are_found() {
    let source = "pub fn a(\n    text: &str,\n) -> Result<Vec<u8>, String> {\n}\npub fn b() -> Result<String, E> {\n}\n\
        fn c() -> Result<u8, String> {\n}\ntype Err = String;\npub async fn d() -> Result<(), String>;\n";
    let found: Vec<_> = untyped_errors(source).collect();
    assert_eq!(found, ["a", "d", "type Err = String"]);
}

/// The names of public functions whose error is a `String`, and associated error types that are `String`.
fn untyped_errors(source: &str) -> impl Iterator<Item = String> {
    let mut starts: Vec<_> = ["pub fn ", "pub async fn ", "pub const fn "]
        .iter()
        .flat_map(|start| source.match_indices(start))
        .collect();
    starts.sort_unstable();
    let functions = starts.into_iter().filter_map(|(index, start)| {
        let rest = &source[index + start.len()..];
        let signature = &rest[..rest.find(['{', ';']).unwrap_or(rest.len())];
        let (_, result) = signature.rsplit_once("->")?;
        let result: String = result.split_whitespace().collect();
        let name = signature.split(['(', '<']).next()?;
        (result.starts_with("Result<") && result.ends_with(",String>")).then(|| name.to_owned())
    });
    let types = ["type Err = String", "type Error = String"]
        .into_iter()
        .filter(|text| source.contains(&format!("{text};")))
        .map(str::to_owned);
    let all: Vec<_> = functions.chain(types).collect();
    all.into_iter()
}

#[test]
fn every_example_and_every_hook_for_tests_has_tests() {
    let mut checked = 0;
    for parent in ["examples-hooks", "tests/rust-hooks"] {
        let Ok(entries) = std::fs::read_dir(workspace().join(parent)) else {
            continue;
        };
        for directory in entries.filter_map(|entry| Some(entry.ok()?.path())) {
            if directory.join("Cargo.toml").is_file() {
                checked += 1;
                assert!(
                    is_tested(&directory),
                    "no test names {}",
                    directory.display()
                );
            }
        }
    }
    assert!(checked >= 2, "the examples have moved");
}

/// Whether an example has tests in its own crate, or a hook for tests is named in a test.
fn is_tested(directory: &Path) -> bool {
    let marks = ["#[test]", "#[hooks_sdk_testing::test("];
    let has_own_tests = sources(directory)
        .iter()
        .any(|(_, source)| marks.iter().any(|mark| source.contains(mark)));
    let name = directory
        .file_name()
        .unwrap()
        .to_string_lossy()
        .into_owned();
    let spellings = [
        format!("\"{name}"),
        format!("\"{}", name.replace('-', "_")),
        format!("{}_", name.replace('-', "_")),
    ];
    let tests = [
        workspace().join("tests/tests"),
        workspace().join("src/hook-host/tests"),
        workspace().join("src/virt-hook/tests"),
    ];
    let is_named_in_test = || {
        let all = tests.iter().flat_map(|tests| sources(tests));
        all.into_iter()
            .any(|(_, source)| spellings.iter().any(|spelling| source.contains(spelling)))
    };
    has_own_tests
        || (directory.starts_with(workspace().join("tests/rust-hooks")) && is_named_in_test())
}

#[test]
fn the_pure_crates_use_no_file_system() {
    for (name, member) in members() {
        if PURE_CRATES.contains(&name.as_str()) {
            for (file, source) in sources(&member.directory.join("src")) {
                for word in [
                    "std::fs",
                    "std::net",
                    "std::process",
                    "std::thread",
                    "std::env",
                ] {
                    assert!(!source.contains(word), "{} names {word}", file.display());
                }
            }
        }
    }
}
/// All Rust sources below a directory.
pub(crate) fn sources(directory: &Path) -> Vec<(PathBuf, String)> {
    let Ok(entries) = std::fs::read_dir(directory) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push((path.clone(), std::fs::read_to_string(&path).unwrap()));
        }
    }
    found
}
