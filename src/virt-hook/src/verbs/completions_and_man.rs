//! `virt-hook completions` and `virt-hook man`: shell completions and man pages, generated from the definition of the
//! command line.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, Command};
use clap_complete::Shell;
use clap_mangen::Man;
use serde::Serialize;

use crate::output::{Report, Style};
use crate::output_file;
use crate::verb_failure::Failure;

const PROGRAM_NAME: &str = "virt-hook";
const SYNOPSIS_HEADING: &str = ".SH SYNOPSIS\n";

pub(crate) const COMPLETIONS_HELP: &str = "\
Examples:
  virt-hook completions bash > ~/.local/share/bash-completion/completions/virt-hook
  virt-hook completions zsh > ~/.zfunc/_virt-hook";

pub(crate) const MAN_HELP: &str = "\
Examples:
  virt-hook man --into ~/.local/share/man/man1; man virt-hook-check

Exit codes:
  0  the pages are written
  3  the pages could not be written";

/// Arguments of `virt-hook completions`.
#[derive(Debug, Args)]
pub(crate) struct CompletionsArguments {
    /// The shell
    shell: Shell,
}

/// Arguments of `virt-hook man`.
#[derive(Debug, Args)]
pub(crate) struct ManArguments {
    /// Directory for the pages, one per verb
    #[arg(long, value_name = "DIR")]
    into: PathBuf,
}

/// A script for a shell.
#[derive(Debug, Serialize)]
pub(crate) struct CompletionsReport {
    script: String,
}

/// The pages that were written.
#[derive(Debug, Serialize)]
pub(crate) struct ManReport {
    pages: Vec<PathBuf>,
}

pub(crate) fn completions(
    arguments: &CompletionsArguments,
    mut program: Command,
) -> Result<CompletionsReport, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut program, PROGRAM_NAME, &mut script);
    let script = String::from_utf8(script).map_err(Failure::internal)?;
    Ok(CompletionsReport { script })
}

pub(crate) fn man(arguments: &ManArguments, program: Command) -> Result<ManReport, Failure> {
    write_pages(&arguments.into, program).map_err(Failure::Internal)
}

fn write_pages(directory: &Path, mut program: Command) -> anyhow::Result<ManReport> {
    fs::create_dir_all(directory).with_context(|| directory.display().to_string())?;
    program.build();
    let mut pages = Vec::new();
    for command in with_subcommands(&program) {
        // `build` has set the display names, such as `virt-hook-policy-check`.
        let name = command.get_display_name().unwrap_or(PROGRAM_NAME);
        let path = directory.join(format!("{name}.1"));
        output_file::write(&path, page(command)?.as_bytes())?;
        pages.push(path);
    }
    Ok(ManReport { pages })
}

/// A command and all its subcommands.
fn with_subcommands(command: &Command) -> Vec<Command> {
    let subcommands = command.get_subcommands();
    let subcommands = subcommands.filter(|verb| verb.get_name() != "help");
    let subcommands = subcommands.flat_map(with_subcommands);
    std::iter::once(command.clone())
        .chain(subcommands)
        .collect()
}

fn page(mut command: Command) -> anyhow::Result<String> {
    let usage = command.render_usage().to_string();
    let mut page = Vec::new();
    Man::new(command).render(&mut page)?;
    let page = String::from_utf8(page)?;
    Ok(with_synopsis(&page, &usage))
}

/// The page with the command's usage as its synopsis: the synopsis of clap_mangen lists options without their values.
fn with_synopsis(page: &str, usage: &str) -> String {
    let usage = usage.strip_prefix("Usage: ").unwrap_or(usage);
    let usage = usage.split_whitespace().collect::<Vec<_>>().join(" ");
    let usage = usage.replace('\\', "\\e").replace('-', "\\-");
    let parts = page.split_once(SYNOPSIS_HEADING).and_then(|(start, rest)| {
        let end = rest.find("\n.SH ")?;
        Some((start, &rest[end..]))
    });
    match parts {
        Some((start, rest)) => format!("{start}{SYNOPSIS_HEADING}{usage}{rest}"),
        None => page.to_owned(),
    }
}

impl Report for CompletionsReport {
    fn text(&self, _: Style) -> String {
        self.script.clone()
    }
}

impl Report for ManReport {
    fn text(&self, _: Style) -> String {
        let pages = self
            .pages
            .iter()
            .map(|page| format!("{}\n", page.display()));
        pages.collect()
    }
}
