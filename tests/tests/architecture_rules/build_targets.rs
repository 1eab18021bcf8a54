//! What has no tests is not built for tests: each such build compiles a crate once more, and rustdoc reads it whole to find no
//! example.

use std::path::{Path, PathBuf};

use tests::binaries::workspace;

use crate::source_rules::sources;
use crate::workspace_members::targets;

#[test]
fn targets_are_built_for_tests_if_they_have_some() {
    // Authors copy the example hooks, and their copies get unit tests.
    let examples = workspace().join("examples-hooks");
    for target in targets() {
        if !target.source.starts_with(&examples) && (target.is_library || target.is_program) {
            let sources = sources_of(&target.source);
            let has_tests = sources.iter().any(|source| has_unit_tests(source));
            let name = target.source.display();
            assert_eq!(target.test, has_tests, "{name}: `test` in Cargo.toml");
            if target.is_library {
                let has_examples = sources.iter().any(|source| has_doc_tests(source));
                assert_eq!(
                    target.doctest, has_examples,
                    "{name}: `doctest` in Cargo.toml"
                );
            }
        }
    }
}

#[test]
fn examples_that_rustdoc_runs_are_found() {
    for (code, is_run) in [
        ("/// ```\n/// f();\n/// ```\n", true),
        ("    //! ```no_run\n    //! f();\n    //! ```\n", true),
        ("/// ```compile_fail,E0080\n/// ```\n", true),
        ("/// ```text\n/// a --> b\n/// ```\n", false),
        ("/// ```yaml\n/// a: b\n/// ```\n", false),
        ("// ```\n// f();\n// ```\n", false),
    ] {
        assert_eq!(has_doc_tests(code), is_run, "{code}");
    }
}

/// The sources of a library or program: of a `main.rs` beside a `lib.rs` itself alone.
fn sources_of(root: &Path) -> Vec<String> {
    let directory = root.parent().unwrap();
    let is_beside_library = root.ends_with("main.rs") && directory.join("lib.rs").exists();
    let files: Vec<(PathBuf, String)> = match is_beside_library {
        true => vec![(root.to_owned(), std::fs::read_to_string(root).unwrap())],
        false => sources(directory),
    };
    let programs = directory.join("bin");
    let is_of_target = |path: &Path| root.starts_with(&programs) || !path.starts_with(&programs);
    let files = files.into_iter().filter(|(path, _)| is_of_target(path));
    files.map(|(_, source)| source).collect()
}

fn has_unit_tests(source: &str) -> bool {
    source.contains("#[test]") || source.contains("#[tokio::test")
}

/// Whether a documentation comment has an example that rustdoc compiles.
fn has_doc_tests(source: &str) -> bool {
    let comments = source.lines().filter_map(|line| {
        let line = line.trim_start();
        line.strip_prefix("///").or(line.strip_prefix("//!"))
    });
    let mut is_open = false;
    comments
        .filter_map(|comment| comment.trim_start().strip_prefix("```"))
        .any(|language| {
            is_open = !is_open;
            is_open && !["text", "yaml"].contains(&language)
        })
}
