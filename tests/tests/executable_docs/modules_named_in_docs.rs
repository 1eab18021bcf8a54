//! Checks that the modules and files exist that ARCHITECTURE.md, the READMEs of the crates and those of the tests name.

use std::fs;
use std::path::{Path, PathBuf};

use regex::Regex;
use tests::binaries::workspace;

/// Words that look like paths: a file that a worked example adds, and a function.
const EXCEPTIONS: [&str; 2] = [
    "src/convert/devices/crypto.rs",
    "device_plugin_devices::any_usb",
];

/// The `src` directories of all crates below `src/`.
fn all_sources() -> Vec<PathBuf> {
    let crates = fs::read_dir(workspace().join("src")).unwrap();
    crates
        .map(|entry| entry.unwrap().path().join("src"))
        .collect()
}

/// Whether a directory or one of its subdirectories contains the file, directory or module.
fn contains_path(directory: &Path, path: &str) -> bool {
    let path = path.trim_end_matches('/');
    let is_here = directory.join(path).exists() || directory.join(format!("{path}.rs")).is_file();
    let in_subdirectory = || {
        let entries = fs::read_dir(directory).into_iter().flatten();
        let mut paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
        paths.any(|directory| {
            directory.is_dir() && !directory.is_symlink() && contains_path(&directory, path)
        })
    };
    is_here || in_subdirectory()
}

/// The words in backticks that look like a path: `manager/ops`, `manager.rs`, `domain::reconcile`.
fn paths(text: &str) -> Vec<String> {
    let path = Regex::new(
        r"^[a-z0-9_-]+((/[a-z0-9_-]+)+/?|/|(/[a-z0-9_-]+)*\.rs)$|^[a-z0-9_]+(::[a-z0-9_]+)+$",
    );
    let (path, word) = (path.unwrap(), Regex::new("`([^`\n]+)`").unwrap());
    let mut is_code = false;
    let prose = text.lines().filter(|line| {
        is_code ^= line.starts_with("```");
        !is_code
    });
    let words = prose.flat_map(|line| word.captures_iter(line).map(|found| found[1].to_owned()));
    words.filter(|word| path.is_match(word)).collect()
}

/// The modules in the first column of a table of modules.
fn modules(text: &str) -> Vec<String> {
    let module = Regex::new("`([a-z0-9_]+)`").unwrap();
    let table = text
        .lines()
        .skip_while(|line| !line.starts_with("| module |"));
    let cells = table
        .take_while(|line| line.starts_with('|'))
        .filter_map(|line| line.split('|').nth(1));
    cells
        .flat_map(|cell| module.captures_iter(cell).map(|found| found[1].to_owned()))
        .collect()
}

fn exists(sources: &[PathBuf], path: &str) -> bool {
    let in_crate = |(crate_name, module): (&str, &str)| {
        let src = workspace().join("src").join(crate_name.replace('_', "-"));
        contains_path(&src.join("src"), &module.replace("::", "/"))
    };
    EXCEPTIONS.contains(&path)
        || workspace().join(path).exists()
        || path.split_once("::").is_some_and(in_crate)
        || sources.iter().any(|sources| contains_path(sources, path))
}

#[test]
fn paths_and_modules_are_found() {
    let text = "`a/b` `a::b` `c.rs` `d/` `Type` `a word` `e`\n```\n`f/g`\n```\n| module | |\n|---|---|\n| `h`, `i` | `j` |\n";
    assert_eq!(paths(text), ["a/b", "a::b", "c.rs", "d/"]);
    assert_eq!(modules(text), ["h", "i"]);
    let sources = all_sources();
    assert!(exists(&sources, "manager/ops") && exists(&sources, "domain::reconcile"));
    assert!(!exists(&sources, "manager/opera") && !exists(&sources, "domain::launcher"));
}

#[test]
fn every_module_in_the_architecture_exists() {
    let mut sources = all_sources();
    sources.push(workspace().join("hooks-sdk"));
    let text = fs::read_to_string(workspace().join("ARCHITECTURE.md")).unwrap();
    let found = paths(&text);
    assert!(found.len() > 50, "{}", found.len());
    let missing: Vec<_> = found
        .iter()
        .filter(|path| !exists(&sources, path))
        .collect();
    assert!(missing.is_empty(), "ARCHITECTURE.md: {missing:?}");
}

#[test]
fn every_module_in_a_crates_readme_exists() {
    let mut checked = 0;
    for sources in all_sources() {
        let directory = sources.parent().unwrap();
        let Ok(text) = fs::read_to_string(directory.join("README.md")) else {
            continue;
        };
        let directory = vec![directory.to_owned()];
        for path in paths(&text).into_iter().chain(modules(&text)) {
            checked += 1;
            let crate_directory = directory[0].display();
            assert!(
                exists(&directory, &path),
                "{crate_directory}/README.md: there is no {path}"
            );
        }
    }
    assert!(checked > 20, "{checked}");
}

#[test]
fn the_readme_of_a_crate_has_a_row_for_every_public_module() {
    let mut checked = 0;
    for sources in all_sources() {
        let readme = sources.parent().unwrap().join("README.md");
        let Ok(text) = fs::read_to_string(&readme) else {
            continue;
        };
        let rows = modules(&text);
        if rows.is_empty() {
            continue;
        }
        let root = fs::read_to_string(sources.join("lib.rs")).unwrap();
        let public = root.lines().filter_map(|line| {
            let name = line.strip_prefix("pub mod ")?;
            name.strip_suffix(';')
        });
        for module in public {
            checked += 1;
            let is_listed = rows.iter().any(|row| row == module);
            assert!(is_listed, "{} has no row for {module}", readme.display());
        }
    }
    assert!(checked > 20, "{checked}");
}

/// The paths in backticks that begin with a directory at the top of the repository.
fn repository_paths(text: &str) -> Vec<String> {
    let path = Regex::new(
        r"`((?:src|tests|hooks-sdk|examples-hooks|proto|deploy|scripts|docs)/[A-Za-z0-9_./-]+)`",
    )
    .unwrap();
    let found = path.captures_iter(text).map(|found| found[1].to_owned());
    found.collect()
}

#[test]
fn every_path_in_a_readme_of_the_tests_exists() {
    let mut pending = vec![workspace().join("tests")];
    let mut checked = 0;
    while let Some(directory) = pending.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.is_symlink() {
                pending.push(path);
            } else if path.file_name().is_some_and(|name| name == "README.md") {
                let text = fs::read_to_string(&path).unwrap();
                for named in repository_paths(&text) {
                    checked += 1;
                    let exists = workspace().join(&named).exists();
                    assert!(exists, "{}: there is no {named}", path.display());
                }
            }
        }
    }
    assert!(checked > 5, "{checked}");
}
