//! Compares the table in `docs/command-service.md` with the protocol, the service and the tests.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use tests::binaries::workspace;

/// A row of the page's table.
struct Row {
    call: String,
    state: String,
    tests: Vec<String>,
}

fn read_file(path: &str) -> String {
    fs::read_to_string(workspace().join(path)).unwrap()
}

/// The calls of the service, in the protocol's order.
fn calls() -> Vec<String> {
    let protocol = read_file("proto/proto/kubevirt/cmd/v1.proto");
    let lines = protocol
        .lines()
        .filter_map(|line| line.trim().strip_prefix("rpc "));
    lines
        .map(|line| line.split('(').next().unwrap().to_owned())
        .collect()
}

fn rows() -> Vec<Row> {
    let page = read_file("docs/command-service.md");
    let table = page
        .lines()
        .skip_while(|line| !line.starts_with("| call |"))
        .skip(2);
    let row = |line: &str| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [call, state, _differences, tests] = cells[..] else {
            panic!("not four cells: {line}");
        };
        let tests = tests.split(',').map(|name| name.trim().trim_matches('`'));
        Row {
            call: call.to_owned(),
            state: state.to_owned(),
            tests: tests
                .filter(|name| !name.is_empty())
                .map(str::to_owned)
                .collect(),
        }
    };
    table
        .take_while(|line| line.starts_with('|'))
        .map(row)
        .collect()
}

/// The calls that the service refuses as unsupported, according to its source.
fn unsupported_calls() -> BTreeSet<String> {
    let service = read_file("src/launcher/src/command_server/command_service.rs");
    let parts = service.split("unsupported(\"").skip(1);
    parts
        .map(|part| part.split('"').next().unwrap().to_owned())
        .collect()
}

/// Adds the names of all functions in the Rust files below a directory.
fn add_function_names(directory: &Path, names: &mut BTreeSet<String>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            add_function_names(&path, names);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let source = fs::read_to_string(&path).unwrap();
            let parts = source.split("fn ").skip(1);
            names.extend(parts.map(|part| {
                let is_part_of_name =
                    |character: &char| character.is_alphanumeric() || *character == '_';
                part.chars().take_while(is_part_of_name).collect::<String>()
            }));
        }
    }
}

#[test]
fn page_has_every_call_once_in_the_protocols_order() {
    let page: Vec<String> = rows().into_iter().map(|row| row.call).collect();
    assert_eq!(page, calls());
    assert_eq!(page.len(), 36);
}

#[test]
fn states_are_those_of_the_service() {
    let unsupported_calls = unsupported_calls();
    assert!(
        unsupported_calls.iter().all(|call| calls().contains(call)),
        "{unsupported_calls:?}"
    );
    for Row { call, state, .. } in rows() {
        assert!(
            ["works", "simulated", "refused"].contains(&state.as_str()),
            "{call}: {state}"
        );
        assert_eq!(
            state == "refused",
            unsupported_calls.contains(&call),
            "{call} is {state} on the page"
        );
    }
}

#[test]
fn named_tests_exist() {
    let mut names = BTreeSet::new();
    for directory in ["src/launcher", "tests/tests"] {
        add_function_names(&workspace().join(directory), &mut names);
    }
    for Row { call, state, tests } in rows() {
        assert!(
            state == "refused" || !tests.is_empty(),
            "{call} has no test"
        );
        for test in tests {
            assert!(names.contains(&test), "{call}: there is no test {test}");
        }
    }
}
