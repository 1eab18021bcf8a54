//! Runs the program as its users do, for tests of its verbs.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

/// The program under test, without environment variables that change its output.
pub fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_virt-hook"));
    command.env_remove("NO_COLOR");
    command
}

/// The exit code and the output of the program.
pub struct ProgramOutput {
    pub code: i32,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

impl From<Output> for ProgramOutput {
    fn from(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Self {
            code: output.status.code().unwrap(),
            out: text(output.stdout),
            err: text(output.stderr),
        }
    }
}

impl ProgramOutput {
    /// Standard output of a successful run.
    #[track_caller]
    pub fn success_stdout(self) -> String {
        assert_eq!(self.code, 0, "{}{}", self.out, self.err);
        self.out
    }

    /// The JSON document on standard output, whose `ok` must agree with the exit code.
    #[track_caller]
    pub fn json(&self) -> Value {
        let value: Value = serde_json::from_str(&self.out).unwrap();
        assert_eq!(value["ok"], self.code == 0, "{}{}", self.out, self.err);
        value
    }

    /// The `result` of the JSON document of a successful run.
    #[track_caller]
    pub fn result(&self) -> Value {
        assert_eq!(self.code, 0, "{}{}", self.out, self.err);
        self.json()["result"].clone()
    }
}

/// The path as text.
pub fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}
