//! `virt-hook dev`: builds and tests a project after each change.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};
use std::{fs, io, thread};

use anyhow::{Context, anyhow};
use clap::Args;

use crate::output::Style;
use crate::verb_failure::Failure;

pub(crate) const HELP: &str = "\
Runs `make test`, or the command after --, when a source or a test case changes. `make test` builds the
module, runs its tests and shows the differences. An unchanged module is not compiled again. On a terminal
each run clears the screen first. Ctrl-C ends this program.

Files are polled, which works on shared and network directories too.

Examples:
  virt-hook dev
  virt-hook dev hooks/team-label
  virt-hook dev -- make check

Exit codes:
  2  DIR is not a directory, or has no Makefile and no command is named
  3  the command could not be started";
/// How often the files are checked for changes.
const POLL_INTERVAL: Duration = Duration::from_millis(300);
/// Maximum number of changed files that a line names.
const MAX_NAMED_FILES: usize = 5;
const CLEAR_SCREEN: &str = "\x1b[2J\x1b[3J\x1b[H";

/// Arguments of `virt-hook dev`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The project's directory
    #[arg(value_name = "DIR", default_value = ".")]
    directory: PathBuf,
    /// The command to run in the directory, instead of `make test`
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Runs until a signal ends the program, or until its output is closed.
pub(crate) fn run(arguments: &Arguments, style: Style) -> Result<(), Failure> {
    let command = command(arguments)?;
    let directory = &arguments.directory;
    let mut before = ProjectFiles::list(directory);
    let mut changed = Vec::new();
    loop {
        if print_start(&changed).is_err() {
            return Ok(());
        }
        let started = Instant::now();
        let passed = run_once(directory, &command)?;
        if print_result(passed, started.elapsed(), style).is_err() {
            return Ok(());
        }
        let current = next_change(directory, &before);
        changed = before.changed(&current, directory);
        before = current;
    }
}

fn command(arguments: &Arguments) -> Result<Vec<OsString>, Failure> {
    if !arguments.directory.is_dir() {
        let directory = arguments.directory.display();
        return Err(Failure::usage(anyhow!(
            "{directory}: not a directory: name the project's directory"
        )));
    }
    if !arguments.command.is_empty() {
        return Ok(arguments.command.clone());
    }
    if !arguments.directory.join("Makefile").is_file() {
        let directory = arguments.directory.display();
        return Err(Failure::usage(anyhow!(
            "{directory}: no Makefile in it: name the project's directory, or what to run, as in `virt-hook dev -- cargo test`"
        )));
    }
    Ok(["make", "test"].map(OsString::from).to_vec())
}

fn run_once(directory: &Path, command: &[OsString]) -> Result<bool, Failure> {
    let Some((program, arguments)) = command.split_first() else {
        return Ok(true);
    };
    let virt_hook = std::env::current_exe().context("finding this program");
    let virt_hook = virt_hook.map_err(Failure::Internal)?;
    let status = Command::new(program)
        .args(arguments)
        .current_dir(directory)
        // The Makefiles of `virt-hook new` run the program that this variable names.
        .env("VIRT_HOOK", virt_hook)
        .status();
    let context = || format!("running {}", program.to_string_lossy());
    let status = status.with_context(context).map_err(Failure::Internal)?;
    Ok(status.success())
}

/// Waits for a change, and then until no more files change: editors and git write several.
fn next_change(directory: &Path, before: &ProjectFiles) -> ProjectFiles {
    let mut last = ProjectFiles::list(directory);
    loop {
        thread::sleep(POLL_INTERVAL);
        let after = ProjectFiles::list(directory);
        if after != *before && after == last {
            return after;
        }
        last = after;
    }
}

fn print_start(changed: &[PathBuf]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if out.is_terminal() {
        out.write_all(CLEAR_SCREEN.as_bytes())?;
    }
    if let Some(line) = changed_line(changed) {
        writeln!(out, "{line}")?;
    }
    out.flush()
}

fn changed_line(changed: &[PathBuf]) -> Option<String> {
    let names = changed.iter().take(MAX_NAMED_FILES);
    let names: Vec<String> = names.map(|path| path.display().to_string()).collect();
    let omitted = match changed.len().saturating_sub(MAX_NAMED_FILES) {
        0 => String::new(),
        omitted => format!(" and {omitted} more"),
    };
    (!names.is_empty()).then(|| format!("changed: {}{omitted}", names.join(", ")))
}

fn print_result(passed: bool, took: Duration, style: Style) -> io::Result<()> {
    let word = match passed {
        true => style.good("passed"),
        false => style.bad("FAILED"),
    };
    let seconds = took.as_secs_f64();
    let mut out = io::stdout().lock();
    writeln!(
        out,
        "\n{word} in {seconds:.1} s; waiting for changes, Ctrl-C ends"
    )?;
    out.flush()
}

/// Directories that builds write; changes in them do not count.
const BUILD_DIRECTORIES: [&str; 3] = ["target", "build", "__pycache__"];
/// Files that builds write; their changes do not count.
const LOCK_FILES: [&str; 2] = ["Cargo.lock", "go.sum"];
/// Maximum number of files that are watched; no project of hooks has so many.
const MAX_FILES: usize = 20_000;

/// Modification time and size of each file.
#[derive(Debug, Default, PartialEq, Eq)]
struct ProjectFiles(BTreeMap<PathBuf, (Option<SystemTime>, u64)>);

impl ProjectFiles {
    /// Lists the files of a project, without hidden files, backups of editors and build output. Links are not followed.
    fn list(directory: &Path) -> Self {
        let mut files = Self::default();
        let mut pending = vec![directory.to_owned()];
        while let Some(inside) = pending.pop() {
            // A directory that is just being removed has no files.
            for entry in fs::read_dir(&inside).into_iter().flatten().flatten() {
                let name = entry.file_name();
                let name = name.to_string_lossy();
                let Ok(metadata) = entry.metadata() else {
                    continue;
                };
                if name.starts_with('.') || name.ends_with('~') || files.0.len() >= MAX_FILES {
                    continue;
                }
                if !metadata.is_dir() && !LOCK_FILES.contains(&&*name) {
                    let state = (metadata.modified().ok(), metadata.len());
                    files.0.insert(entry.path(), state);
                } else if metadata.is_dir() && !BUILD_DIRECTORIES.contains(&&*name) {
                    pending.push(entry.path());
                }
            }
        }
        files
    }

    /// The files that are new, gone or different, relative to the directory.
    fn changed(&self, later: &Self, directory: &Path) -> Vec<PathBuf> {
        let mut paths: Vec<_> = self.0.keys().chain(later.0.keys()).collect();
        paths.sort();
        paths.dedup();
        let differs = |path: &&&PathBuf| self.0.get(**path) != later.0.get(**path);
        let changed = paths.iter().filter(differs);
        changed
            .map(|path| path.strip_prefix(directory).unwrap_or(path).to_owned())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_changes_are_one_line() {
        let names: Vec<PathBuf> = (0..7).map(|n| format!("f{n}").into()).collect();
        assert_eq!(changed_line(&[]), None);
        assert_eq!(changed_line(&names[..1]).as_deref(), Some("changed: f0"));
        let line = changed_line(&names).unwrap_or_default();
        assert_eq!(line, "changed: f0, f1, f2, f3, f4 and 2 more");
    }

    #[test]
    fn changes_of_sources_and_cases_count_and_build_output_does_not() {
        let temp_dir = tempfile::tempdir().unwrap();
        let temp_dir = temp_dir.path();
        let write = |name: &str, text: &str| {
            fs::create_dir_all(temp_dir.join(name).parent().unwrap()).unwrap();
            fs::write(temp_dir.join(name), text).unwrap();
        };
        for name in ["main.go", "cases/a/vmi.yaml", "gone.txt"] {
            write(name, "x");
        }
        let before = ProjectFiles::list(temp_dir);
        for name in [
            "target/a/b",
            "build/x.wasm",
            ".git/x",
            "main.go~",
            "Cargo.lock",
            "a/__pycache__/b",
        ] {
            write(name, "x");
        }
        assert_eq!(ProjectFiles::list(temp_dir), before);
        write("cases/a/vmi.yaml", "longer");
        write("cases/b/vmi.yaml", "new");
        fs::remove_file(temp_dir.join("gone.txt")).unwrap();
        let changed = before.changed(&ProjectFiles::list(temp_dir), temp_dir);
        let expected = ["cases/a/vmi.yaml", "cases/b/vmi.yaml", "gone.txt"];
        assert_eq!(changed, expected.map(PathBuf::from));
    }
}
