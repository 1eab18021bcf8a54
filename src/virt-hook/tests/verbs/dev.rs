//! `dev`, and the compiled modules that are kept between runs.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use super::{ProgramOutput, program, smbios, text, virt_hook, vmi, write};

/// Only a hanging program takes this long.
const DEADLINE: Duration = Duration::from_secs(120);

/// A running `virt-hook dev` and the lines that it prints.
struct Dev {
    child: Child,
    lines: Receiver<String>,
}

impl Dev {
    fn start(arguments: &[&str]) -> Self {
        // A shell without job control starts what is in its background with this signal ignored, the tests included.
        let mut command = Command::new("env");
        command
            .arg("--default-signal=INT")
            .arg(program().get_program());
        command.arg("dev").args(arguments).stdout(Stdio::piped());
        // Below another make, make tells which directory it enters.
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

    /// What it prints until it waits for changes.
    fn run(&self) -> String {
        let mut printed = String::new();
        while !printed.contains("waiting for changes") {
            printed += &self.lines.recv_timeout(DEADLINE).unwrap();
            printed += "\n";
        }
        printed
    }
}

impl Drop for Dev {
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
    let mut dev = Dev::start(&[text(temp_dir)]);
    let first = dev.run();
    assert!(
        first.starts_with("first\n") && first.contains("passed in"),
        "{first}"
    );
    write(temp_dir, "note", "second one\n");
    let second = dev.run();
    assert!(
        second.starts_with("changed: note\nsecond one\n"),
        "{second}"
    );
    write(temp_dir, "broken", "");
    let third = dev.run();
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
fn a_directory_without_makefile_is_refused() {
    let temp_dir = tempfile::tempdir().unwrap();
    let refused = virt_hook(&["dev", text(temp_dir.path())]);
    assert_eq!(refused.code, 2);
    assert!(refused.err.contains("no Makefile"), "{}", refused.err);
    let missing = virt_hook(&["dev", text(temp_dir.path()), "--", "/nonexistent/program"]);
    assert_eq!(missing.code, 3, "{}", missing.err);
}

#[test]
fn a_module_is_compiled_once_and_a_damaged_copy_again() {
    let temp_dir = tempfile::tempdir().unwrap();
    let cache = temp_dir.path().join("cache");
    let case = temp_dir.path().join("cases/a");
    vmi(&case);
    fs::write(case.join("expected.diff"), "").unwrap();
    let module = smbios();
    let tested = || {
        let arguments = [
            "test",
            "--hook",
            text(&module),
            text(&case),
            "-v",
            "--update",
        ];
        let output = program()
            .args(arguments)
            .env("XDG_CACHE_HOME", &cache)
            .output();
        let output = ProgramOutput::from(output.unwrap());
        assert_eq!(output.code, 0, "{}{}", output.out, output.err);
        output.err
    };
    let entries = || {
        let mut below = fs::read_dir(cache.join("virt-hook")).unwrap();
        let directory = below.next().unwrap().unwrap().path();
        let entries = fs::read_dir(directory).unwrap();
        let paths = entries.map(|entry| entry.unwrap().path());
        // Beside the module are its functions and what it cost to compile.
        let modules = paths.filter(|path| path.extension().is_some_and(|kind| kind == "cwasm"));
        modules.collect::<Vec<_>>()
    };
    tested();
    let kept = entries();
    assert_eq!(kept.len(), 1);
    assert!(!tested().contains("damaged"));
    assert_eq!(entries(), kept);
    let code = fs::read(&kept[0]).unwrap();
    fs::write(&kept[0], &code[..code.len() / 2]).unwrap();
    let printed = tested();
    assert!(printed.contains("a kept module is damaged"), "{printed}");
    let [again] = &entries()[..] else {
        panic!("one entry is expected: {:?}", entries());
    };
    assert!(fs::read(again).unwrap().len() > code.len() / 2);
}
