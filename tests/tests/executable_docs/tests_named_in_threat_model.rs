//! Checks that the tests and modules that the threat model names exist.

use std::fs;
use std::path::Path;
use std::slice;

use tests::binaries::workspace;

const PAGE: &str = "docs/threat-model.md";

/// A Rust file with the path of its module.
struct Source {
    module: Vec<String>,
    text: String,
}

fn add_sources(directory: &Path, module: &[String], sources: &mut Vec<Source>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let module_path = || [module, slice::from_ref(&name)].concat();
        if path.is_dir() {
            add_sources(&path, &module_path(), sources);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let is_root = ["mod", "main", "lib"].contains(&name.as_str());
            sources.push(Source {
                module: if is_root {
                    module.to_vec()
                } else {
                    module_path()
                },
                text: fs::read_to_string(&path).unwrap(),
            });
        }
    }
}

/// The Rust paths in backticks in the last column of the page's tables.
fn names_on_page() -> Vec<String> {
    let page = fs::read_to_string(workspace().join(PAGE)).unwrap();
    let rows = page.lines().filter(|line| line.starts_with('|'));
    let cells = rows.filter_map(|row| row.trim_end_matches('|').rsplit('|').next());
    let is_path = |name: &&str| {
        let mut letters = name.chars();
        letters.all(|letter| {
            letter.is_ascii_lowercase() || letter.is_ascii_digit() || "_:".contains(letter)
        })
    };
    let names = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2));
    names.filter(is_path).map(str::to_owned).collect()
}

/// Whether `name` is the end of a module's path, or a function in such a module or in its module `tests`.
fn exists(name: &str, sources: &[Source]) -> bool {
    let steps: Vec<&str> = name.split("::").collect();
    let sources_ending_with = |steps: &[&str]| {
        let steps: Vec<String> = steps.iter().map(|step| (*step).to_owned()).collect();
        sources
            .iter()
            .filter(move |source| source.module.ends_with(&steps))
    };
    let Some((function, module)) = steps.split_last() else {
        return false;
    };
    let function = format!("fn {function}(");
    let with_tests: Vec<&str> = module.iter().copied().chain(["tests"]).collect();
    let without_tests: Vec<&str> = module
        .iter()
        .copied()
        .filter(|step| *step != "tests")
        .collect();
    sources_ending_with(&steps).next().is_some()
        || [module, &with_tests, &without_tests]
            .iter()
            .any(|module| sources_ending_with(module).any(|source| source.text.contains(&function)))
}

#[test]
fn tests_that_the_threat_model_names_exist() {
    let mut sources = Vec::new();
    for directory in [
        "src/domain",
        "src/hook-host",
        "src/domain-xml",
        "src/virt-hook",
        "src/libvirt",
        "src/launcher",
        "src/stderr-lines",
        "tests/tests/admission_policies",
        "tests/tests/e2e",
    ] {
        add_sources(&workspace().join(directory), &[], &mut sources);
    }
    let names = names_on_page();
    assert!(
        names.len() > 50,
        "the tables of {PAGE} have moved: {names:?}"
    );
    let missing: Vec<_> = names
        .iter()
        .filter(|name| !exists(name, &sources))
        .collect();
    assert!(missing.is_empty(), "{PAGE} names {missing:?}");
    assert!(!exists("hostile_modules::sleeps", &sources));
    assert!(!exists("hostile::spins", &sources));
}
