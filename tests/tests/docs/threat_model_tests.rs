//! The tests and modules that the threat model names exist.

use std::fs;
use std::path::Path;
use std::slice;

use tests::binaries::workspace;

const PAGE: &str = "docs/threat-model.md";

/// A Rust file: the path of its module, and its text.
struct Source {
    module: Vec<String>,
    text: String,
}

fn sources(directory: &Path, module: &[String], found: &mut Vec<Source>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let inner = || [module, slice::from_ref(&name)].concat();
        if path.is_dir() {
            sources(&path, &inner(), found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let is_root = ["mod", "main", "lib"].contains(&name.as_str());
            found.push(Source {
                module: if is_root { module.to_vec() } else { inner() },
                text: fs::read_to_string(&path).unwrap(),
            });
        }
    }
}

/// The last cells of the page's tables: what is in backticks and is a path of Rust.
fn named() -> Vec<String> {
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

/// `name` is the end of a module's path, or a function in such a module, whose tests may have a module of their own.
fn exists(name: &str, sources: &[Source]) -> bool {
    let steps: Vec<&str> = name.split("::").collect();
    let ending = |steps: &[&str]| {
        let steps: Vec<String> = steps.iter().map(|step| (*step).to_owned()).collect();
        sources
            .iter()
            .filter(move |source| source.module.ends_with(&steps))
    };
    let Some((function, module)) = steps.split_last() else {
        return false;
    };
    let function = format!("fn {function}(");
    let beside: Vec<&str> = module.iter().copied().chain(["tests"]).collect();
    let inside: Vec<&str> = module
        .iter()
        .copied()
        .filter(|step| *step != "tests")
        .collect();
    ending(&steps).next().is_some()
        || [module, &beside, &inside]
            .iter()
            .any(|module| ending(module).any(|source| source.text.contains(&function)))
}

#[test]
fn tests_that_the_threat_model_names_exist() {
    let mut found = Vec::new();
    for directory in [
        "hook-host",
        "domain-xml",
        "virt-hook",
        "libvirt",
        "launcher",
    ] {
        let directory = format!("src/{directory}");
        sources(&workspace().join(directory), &[], &mut found);
    }
    let names = named();
    assert!(
        names.len() > 50,
        "the tables of {PAGE} have moved: {names:?}"
    );
    let missing: Vec<_> = names.iter().filter(|name| !exists(name, &found)).collect();
    assert!(missing.is_empty(), "{PAGE} names {missing:?}");
    assert!(!exists("hostile_modules::sleeps", &found));
    assert!(!exists("hostile::spins", &found));
}
