//! `virt-hook dev`: builds and tests a project after each change.

mod project_files;

use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use clap::Args;

use crate::exit_codes::Failure;
use crate::output::Style;
use project_files::Snapshot;

pub(crate) const HELP: &str = "\
After each change of a source or a case it runs `make test`, which builds the module, runs its tests and
shows what is not as expected; any other command can be named behind --. An unchanged module is not
compiled again. On a terminal each run begins with a clear screen. Ctrl-C ends it.

Files are looked at, not subscribed to: that works on shared and network directories too.

Examples:
  virt-hook dev
  virt-hook dev hooks/team-label
  virt-hook dev -- make check

Exit codes:
  2  the directory has no Makefile, and no command is named
  3  the command could not be started";

/// How often the files are looked at.
const INTERVAL: Duration = Duration::from_millis(300);
/// More changed files than a line shows.
const SHOWN: usize = 5;
const CLEAR: &str = "\x1b[2J\x1b[3J\x1b[H";

/// What `dev` is given.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The project
    #[arg(value_name = "DIR", default_value = ".")]
    directory: PathBuf,
    /// What to run in it, instead of `make test`
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Runs until it is ended by a signal, or until nobody reads its output.
pub(crate) fn run(arguments: &Arguments, style: Style) -> Result<(), Failure> {
    let command = command(arguments)?;
    let directory = &arguments.directory;
    let mut before = Snapshot::of(directory);
    let mut changed = Vec::new();
    loop {
        if begin(&changed).is_err() {
            return Ok(());
        }
        let started = Instant::now();
        let passed = run_once(directory, &command)?;
        if end(passed, started.elapsed(), style).is_err() {
            return Ok(());
        }
        let now = next_change(directory, &before);
        changed = before.changed(&now, directory);
        before = now;
    }
}

fn command(arguments: &Arguments) -> Result<Vec<OsString>, Failure> {
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
    let virt_hook = virt_hook.map_err(Failure::Machine)?;
    let status = Command::new(program)
        .args(arguments)
        .current_dir(directory)
        // The Makefiles of `new` take this program from there.
        .env("VIRT_HOOK", virt_hook)
        .status();
    let named = || format!("running {}", program.to_string_lossy());
    let status = status.with_context(named).map_err(Failure::Machine)?;
    Ok(status.success())
}

/// Waits for a change, and until the files are at rest: editors and git write several.
fn next_change(directory: &Path, before: &Snapshot) -> Snapshot {
    let mut last = Snapshot::of(directory);
    loop {
        thread::sleep(INTERVAL);
        let now = Snapshot::of(directory);
        if now != *before && now == last {
            return now;
        }
        last = now;
    }
}

fn begin(changed: &[PathBuf]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if out.is_terminal() {
        out.write_all(CLEAR.as_bytes())?;
    }
    if let Some(line) = changed_line(changed) {
        writeln!(out, "{line}")?;
    }
    out.flush()
}

fn changed_line(changed: &[PathBuf]) -> Option<String> {
    let names = changed.iter().take(SHOWN);
    let names: Vec<String> = names.map(|path| path.display().to_string()).collect();
    let more = match changed.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    (!names.is_empty()).then(|| format!("changed: {}{more}", names.join(", ")))
}

fn end(passed: bool, took: Duration, style: Style) -> io::Result<()> {
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
}
