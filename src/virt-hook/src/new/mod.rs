//! `virt-hook new`: a project that builds and passes its tests.

mod embedded_files;
mod embedded_templates;
mod hook_name;
mod hook_workspace;
mod program_in_path;
mod sdk_source;

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use clap::{Args, ValueEnum};
use serde::Serialize;

use crate::exit_codes::Failure;
use crate::output::{Report, Style};
use embedded_templates::Template;
use hook_name::Names;
use hook_workspace::Workspace;
use sdk_source::Sdk;

pub(crate) const HELP: &str = "\
The project has a hook that does one small thing, a README that says what to change, cases for
`virt-hook test`, and a Makefile: `make` builds the module, `make test` tests it.

Examples:
  virt-hook new team-label && make -C team-label test
  virt-hook new hooks/team-label --lang go
  virt-hook new --workspace hooks && virt-hook new hooks/team-label    # hooks that share SDK and target

A project in Rust in a workspace of hooks joins it: the second hook is built in seconds.

Exit codes:
  0  the project is there
  2  the name cannot be one, or there is something in its place
  3  it could not be written";

/// What `new` is given.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Where the project belongs; the last part is the hook's name, of a-z, 0-9 and -
    #[arg(value_name = "NAME")]
    project: PathBuf,
    /// What the hook is written in
    #[arg(long, value_enum, default_value_t, value_name = "LANG")]
    lang: Lang,
    /// Rust: the directory of hooks-sdk; when left out, this program's own goes into the project
    #[arg(long, value_name = "DIR")]
    sdk: Option<PathBuf>,
    /// Make a workspace instead, whose hooks in Rust share the SDK and the target directory
    #[arg(long, conflicts_with = "lang")]
    workspace: bool,
}

/// A language that there is a template for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
enum Lang {
    #[default]
    Rust,
    Python,
    C,
    Go,
}

/// A project that was created.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NewProject {
    name: String,
    lang: Lang,
    directory: PathBuf,
    /// Which hooks-sdk a Rust project has, and where; others bring what they need.
    sdk: Option<String>,
    /// Relative to the directory.
    files: Vec<PathBuf>,
    /// It is a workspace, to which hooks are added.
    is_workspace: bool,
    /// The path of this program, if `make` would not find it in `PATH`.
    #[serde(skip)]
    program: Option<PathBuf>,
}

/// Creates the project atomically.
pub(crate) fn run(arguments: &Arguments) -> Result<NewProject, Failure> {
    let names = Names::of(&arguments.project).map_err(Failure::Usage)?;
    if arguments.sdk.is_some() && arguments.lang != Lang::Rust {
        return Err(Failure::usage(anyhow!(
            "--sdk is for hooks in Rust: projects in other languages bring the SDK of this program"
        )));
    }
    let joined = match arguments.lang {
        Lang::Rust if !arguments.workspace => Workspace::around(&arguments.project),
        _ => Ok(None),
    };
    let joined = joined.map_err(Failure::Usage)?;
    let sdk = match (arguments.lang, &joined) {
        (Lang::Rust, None) => Some(Sdk::of(arguments.sdk.as_deref())),
        (Lang::Rust, Some(_)) => Some(Sdk::of_workspace(arguments.sdk.as_deref())),
        (Lang::Python | Lang::C | Lang::Go, _) => None,
    };
    let sdk = sdk.transpose().map_err(Failure::Usage)?;
    let dependency = sdk.as_ref().map(Sdk::dependency).unwrap_or_default();
    let extra = sdk.as_ref().map(Sdk::files).unwrap_or_default();
    let template = match arguments.workspace {
        true => Template::of("rust-workspace"),
        false => Template::of(arguments.lang.directory()),
    };
    let mut values = names.values(&dependency);
    values.extend(hook_workspace::values(joined.is_some()));
    values.extend(hook_workspace::own_values());
    let files = template.write(&arguments.project, &values, &extra)?;
    if let Some(workspace) = joined {
        workspace.add(names.name()).map_err(Failure::Machine)?;
    }
    Ok(NewProject {
        sdk: sdk.as_ref().map(Sdk::to_string),
        name: names.name().to_owned(),
        lang: arguments.lang,
        directory: arguments.project.clone(),
        files,
        is_workspace: arguments.workspace,
        program: program_in_path::unless_in_path(),
    })
}

impl Lang {
    /// Below `templates`.
    fn directory(self) -> &'static str {
        match self {
            Self::Rust => "rust",
            Self::Python => "python",
            Self::C => "c",
            Self::Go => "go",
        }
    }
}

impl Report for NewProject {
    fn text(&self, style: Style) -> String {
        let directory = self.directory.display();
        let own = self
            .files
            .iter()
            .filter(|file| !file.starts_with(sdk_source::DIRECTORY));
        let own = own.count();
        let sdk = self.sdk.as_deref();
        let sdk = sdk.map_or(String::new(), |sdk| format!("hooks-sdk is {sdk}\n"));
        let quoted = shell_quoted(&self.directory);
        let program = self.program.as_deref();
        let program = program.map_or(String::new(), |path| {
            format!("VIRT_HOOK={} ", shell_quoted(path))
        });
        if self.is_workspace {
            return format!(
                "{} is a workspace of hooks in {directory} ({own} files)\n{sdk}\nNext:\n  virt-hook new {quoted}/NAME    \
                 # adds a hook",
                style.strong(&self.name),
            );
        }
        format!(
            "{} is in {directory} ({own} files)\n{sdk}\nNext:\n  {program}make -C {quoted} test    \
             # builds and tests it\n  $EDITOR {quoted}/README.md",
            style.strong(&self.name),
        )
    }
}

/// Quotes a path for a shell.
pub(crate) fn shell_quoted(path: &Path) -> String {
    let text = path.display().to_string();
    shlex::try_quote(&text).map_or_else(|_| text.clone(), Cow::into_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn project(directory: &str, program: Option<&str>) -> String {
        let project = NewProject {
            name: "c".into(),
            lang: Lang::C,
            directory: directory.into(),
            files: vec!["c.c".into(), "sdk/hook.h".into()],
            sdk: None,
            is_workspace: false,
            program: program.map(PathBuf::from),
        };
        project.text(Style::default())
    }

    #[test]
    fn printed_commands_quote_their_paths() {
        let text = project("hooks/c", None);
        assert!(
            text.contains("(1 files)") && text.contains("  make -C hooks/c test"),
            "{text}"
        );
        let text = project("a b/c", Some("/opt/my tools/virt-hook"));
        let line = "  VIRT_HOOK='/opt/my tools/virt-hook' make -C 'a b/c' test";
        assert!(text.contains(line), "{text}");
    }
}
