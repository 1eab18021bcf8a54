//! Runs the program as its users do, for tests of its verbs.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

use std::io::Read;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

/// A timeout that is longer than a debug build on a busy machine takes.
const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// The program under test, without environment variables that change its output.
pub fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_virt-hook"));
    command.env_remove("NO_COLOR");
    command
}

/// Runs a program that must not wait for its input. Panics if it does.
#[track_caller]
pub fn output_in_time(command: &mut Command) -> ProgramOutput {
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = child.spawn().unwrap();
    let stdin = child.stdin.take();
    let reader = |stream: Option<Box<dyn Read + Send>>| {
        thread::spawn(move || {
            let mut bytes = Vec::new();
            stream.unwrap().read_to_end(&mut bytes).unwrap();
            bytes
        })
    };
    let stdout = reader(child.stdout.take().map(|stream| Box::new(stream) as _));
    let stderr = reader(child.stderr.take().map(|stream| Box::new(stream) as _));
    let deadline = Instant::now() + TEST_TIMEOUT;
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if Instant::now() >= deadline {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("it waits: {command:?}");
        }
        thread::sleep(Duration::from_millis(5));
    };
    drop(stdin);
    let (stdout, stderr) = (stdout.join().unwrap(), stderr.join().unwrap());
    let output = Output {
        status,
        stdout,
        stderr,
    };
    output.into()
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
