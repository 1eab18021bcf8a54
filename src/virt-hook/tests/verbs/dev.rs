//! `dev`: runs after changes, and their end by Ctrl-C.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use super::{program, text, virt_hook, write};

/// A program that takes longer hangs.
const DEADLINE: Duration = Duration::from_secs(120);

/// A running `virt-hook dev` and the lines that it prints.
struct RunningDev {
    child: Child,
    lines: Receiver<String>,
}

impl RunningDev {
    fn start(arguments: &[&str]) -> Self {
        // A shell without job control starts background processes, such as these tests, with SIGINT ignored.
        let mut command = Command::new("env");
        command
            .arg("--default-signal=INT")
            .arg(program().get_program());
        command.arg("dev").args(arguments).stdout(Stdio::piped());
        // With these variables of another make, make would print the directories that it enters.
        command.env_remove("MAKEFLAGS").env_remove("MAKELEVEL");
        command.env_remove("NO_COLOR");
        let mut child = command.spawn().unwrap();
        let printed = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        thread::spawn(move || {
            printed
                .lines()
                .try_for_each(|line| sender.send(line.unwrap()))
        });
        Self { child, lines }
    }

    /// The output until the program waits for changes.
    fn output_of_run(&self) -> String {
        let mut printed = String::new();
        while !printed.contains("waiting for changes") {
            printed += &self.lines.recv_timeout(DEADLINE).unwrap();
            printed += "\n";
        }
        printed
    }
}

impl Drop for RunningDev {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_change_starts_another_run_and_ctrl_c_ends_it() {
    let temp_dir = tempfile::tempdir().unwrap();
    let temp_dir = temp_dir.path();
    write(
        temp_dir,
        "Makefile",
        "test:\n\t@cat note; test ! -f broken\n",
    );
    write(temp_dir, "note", "first\n");
    let mut dev = RunningDev::start(&[text(temp_dir)]);
    let first = dev.output_of_run();
    assert!(
        first.starts_with("first\n") && first.contains("passed in"),
        "{first}"
    );
    write(temp_dir, "note", "second one\n");
    let second = dev.output_of_run();
    assert!(
        second.starts_with("changed: note\nsecond one\n"),
        "{second}"
    );
    write(temp_dir, "broken", "");
    let third = dev.output_of_run();
    assert!(
        third.contains("changed: broken") && third.contains("FAILED in"),
        "{third}"
    );
    assert!(!third.contains('\x1b'), "no terminal: {third:?}");
    let id = dev.child.id().to_string();
    let ended = Command::new("kill").args(["-INT", &id]).status().unwrap();
    assert!(ended.success());
    assert!(!dev.child.wait().unwrap().success());
}

#[test]
fn a_missing_directory_and_one_without_makefile_are_refused() {
    let temp_dir = tempfile::tempdir().unwrap();
    let refused = virt_hook(&["dev", text(temp_dir.path())]);
    assert_eq!(refused.code, 2);
    assert!(refused.err.contains("no Makefile"), "{}", refused.err);
    let missing = virt_hook(&["dev", text(temp_dir.path()), "--", "/nonexistent/program"]);
    assert_eq!(missing.code, 3, "{}", missing.err);
    let missing = virt_hook(&["dev", "/nonexistent/directory", "--", "true"]);
    assert_eq!(missing.code, 2, "{}", missing.err);
    assert!(
        missing
            .err
            .contains("/nonexistent/directory: not a directory"),
        "{}",
        missing.err
    );
}
