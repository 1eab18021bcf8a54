//! Runs the recipes in Python natively.

use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tests::binaries::workspace;

/// Runs the recipes in Python natively and returns their results. `run_recipes.py` runs each recipe twice.
pub(crate) fn run_python(cases: &[Value]) -> Vec<Value> {
    let mut python = Command::new("python3");
    let directory = workspace().join("tests/hooks/python-recipes");
    let python = python.arg("run_recipes.py").current_dir(directory);
    let mut child = python
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    input
        .write_all(json!(cases).to_string().as_bytes())
        .unwrap();
    drop(input);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "run_recipes.py failed");
    serde_json::from_slice(&output.stdout).unwrap()
}
