//! `virt-hook completions` and `virt-hook man`: shell completions and man pages, generated from the definition of the
//! command line.

use std::fs;
use std::path::{Path, PathBuf};
use std::string::FromUtf8Error;

use anyhow::Context;
use clap::{Args, Command};
use clap_complete::Shell;
use clap_mangen::Man;
use serde::Serialize;

use crate::output::{Report, Style};
use crate::output_file;
use crate::verb_failure::Failure;

const PROGRAM_NAME: &str = "virt-hook";
/// The program in the names of shell functions and in labels.
const LABEL_NAME: &str = "virt_hook";
const SYNOPSIS_HEADING: &str = ".SH SYNOPSIS\n";

pub(crate) const COMPLETIONS_HELP: &str = "\
Examples:
  virt-hook completions bash > ~/.local/share/bash-completion/completions/virt-hook
  virt-hook completions zsh > ~/.zfunc/_virt-hook
  virt-hook completions fish > ~/.config/fish/completions/virt-hook.fish";

pub(crate) const MAN_HELP: &str = "\
Examples:
  virt-hook man --into ~/.local/share/man/man1; man virt-hook-check

Exit codes:
  0  the pages are written
  3  the pages could not be written";

/// clap_complete's function offers options also where no `-` is typed, and bash then never lists files.
const REGISTER_IN_BASH: &str = r#"
_virt_hook_or_files() {
    local index
    _virt_hook "$@"
    [[ $2 == -* ]] && return
    for index in "${!COMPREPLY[@]}"; do
        [[ ${COMPREPLY[index]} == -* ]] && unset "COMPREPLY[index]"
    done
}

complete -F _virt_hook_or_files -o bashdefault -o default virt-hook
"#;

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
    program: Command,
) -> Result<CompletionsReport, Failure> {
    let script = match arguments.shell {
        Shell::Bash => bash_script(program),
        Shell::Fish => fish_script(program),
        shell => generated_script(shell, program, PROGRAM_NAME),
    };
    let script = script.map_err(Failure::internal)?;
    Ok(CompletionsReport { script })
}

fn generated_script(
    shell: Shell,
    mut program: Command,
    name: &str,
) -> Result<String, FromUtf8Error> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut program, name, &mut script);
    String::from_utf8(script)
}

/// In clap_complete's script for a program with a hyphen in its name, no verb is recognized: the labels of the verbs are
/// assigned in one spelling and compared with another. So the script is that of a program without one. What registers it is
/// written here.
fn bash_script(program: Command) -> Result<String, FromUtf8Error> {
    let mut script = generated_script(Shell::Bash, program.name(LABEL_NAME), LABEL_NAME)?;
    script.push_str(&format!("complete -r {LABEL_NAME}\n{REGISTER_IN_BASH}"));
    Ok(script)
}

/// clap_complete's script for fish knows the values of options only. Adds those of a verb's arguments.
fn fish_script(program: Command) -> Result<String, FromUtf8Error> {
    let mut script = generated_script(Shell::Fish, program.clone(), PROGRAM_NAME)?;
    for verb in program.get_subcommands() {
        let arguments = verb.get_positionals();
        for value in arguments.flat_map(|argument| argument.get_possible_values()) {
            script.push_str(&format!(
                "complete -c {PROGRAM_NAME} -n \"__fish_{LABEL_NAME}_using_subcommand {}\" -f -a \"{}\"\n",
                verb.get_name(),
                value.get_name(),
            ));
        }
    }
    Ok(script)
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
