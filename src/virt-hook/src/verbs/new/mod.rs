//! `virt-hook new`: a project that builds and passes its tests.

mod embedded_files;
mod hook_name;
mod hook_workspace;
mod project_template;
mod sdk_source;

use std::path::PathBuf;

use anyhow::anyhow;
use clap::{Args, ValueEnum};
use serde::Serialize;

use crate::output::{Report, Style};
use crate::program_in_path;
use crate::shell_quoted_path::shell_quoted;
use crate::verb_failure::Failure;
use hook_name::HookName;
use hook_workspace::HookWorkspace;
use project_template::ProjectTemplate;
use sdk_source::SdkSource;

pub(crate) const HELP: &str = "\
The project has a small example hook, a README that says what to change, test cases for
`virt-hook test`, and a Makefile: `make` builds the module, `make test` tests it.

Examples:
  virt-hook new team-label && make -C team-label test
  virt-hook new hooks/team-label --lang go
  virt-hook new --workspace hooks && virt-hook new hooks/team-label    # hooks that share SDK and target

In a workspace of hooks, a project in Rust becomes a member: the second hook is built in seconds.

Exit codes:
  0  the project is written
  2  the name is invalid, or already exists
  3  the project could not be written";

/// The name under which the Makefiles of new projects run this program.
const PROGRAM_NAME: &str = "virt-hook";

/// Arguments of `virt-hook new`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The project's directory, a new one; its last part is the hook's name: a-z, 0-9 and -
    #[arg(value_name = "NAME")]
    project: PathBuf,
    /// The language of the hook
    #[arg(long, value_enum, default_value_t, value_name = "LANG")]
    lang: Lang,
    /// For Rust: the directory of hooks-sdk [default: the SDK of this program is copied into the project]
    #[arg(long, value_name = "DIR")]
    sdk: Option<PathBuf>,
    /// Create a workspace instead, in which hooks in Rust share the SDK and the target directory
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
    /// The version and the place of hooks-sdk in a Rust project; projects in other languages include what they need.
    sdk: Option<String>,
    /// The files of the project, relative to its directory.
    files: Vec<PathBuf>,
    /// Whether the project is a workspace to which hooks are added.
    is_workspace: bool,
    /// The path of this program, if `make` does not find the program in `PATH`.
    #[serde(skip)]
    program: Option<PathBuf>,
}

/// Creates the project atomically.
pub(crate) fn run(arguments: &Arguments) -> Result<NewProject, Failure> {
    let hook_name = HookName::of_project(&arguments.project).map_err(Failure::Usage)?;
    if arguments.sdk.is_some() && arguments.lang != Lang::Rust {
        return Err(Failure::usage(anyhow!(
            "--sdk is for hooks in Rust: projects in other languages bring the SDK of this program"
        )));
    }
    let joined = match arguments.lang {
        Lang::Rust if !arguments.workspace => HookWorkspace::around(&arguments.project),
        _ => Ok(None),
    };
    let joined = joined.map_err(Failure::Usage)?;
    let sdk = match (arguments.lang, &joined) {
        (Lang::Rust, None) => Some(SdkSource::from_option(arguments.sdk.as_deref())),
        (Lang::Rust, Some(_)) => Some(SdkSource::of_workspace(arguments.sdk.as_deref())),
        (Lang::Python | Lang::C | Lang::Go, _) => None,
    };
    let sdk = sdk.transpose().map_err(Failure::Usage)?;
    let dependency = sdk.as_ref().map(SdkSource::dependency).unwrap_or_default();
    let extra = sdk.as_ref().map(SdkSource::files).unwrap_or_default();
    let template = match arguments.workspace {
        true => ProjectTemplate::new("rust-workspace"),
        false => ProjectTemplate::new(arguments.lang.directory()),
    };
    let mut values = hook_name.values(&dependency);
    values.extend(hook_workspace::project_values(joined.is_some()));
    values.extend(hook_workspace::workspace_values());
    let files = template.write(&arguments.project, &values, &extra)?;
    if let Some(workspace) = joined {
        workspace.add(hook_name.name()).map_err(Failure::Internal)?;
    }
    Ok(NewProject {
        sdk: sdk.as_ref().map(SdkSource::to_string),
        name: hook_name.name().to_owned(),
        lang: arguments.lang,
        directory: arguments.project.clone(),
        files,
        is_workspace: arguments.workspace,
        program: own_path_unless_in_path(),
    })
}

/// The path of this program, if `PATH` does not have it under [`PROGRAM_NAME`].
fn own_path_unless_in_path() -> Option<PathBuf> {
    match program_in_path::find(PROGRAM_NAME) {
        Some(_) => None,
        None => std::env::current_exe().ok(),
    }
}

impl Lang {
    /// The directory of the template below `templates`.
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
        let own_files = self
            .files
            .iter()
            .filter(|file| !file.starts_with(sdk_source::DIRECTORY));
        let own_files = own_files.count();
        let sdk = self.sdk.as_deref();
        let sdk = sdk.map_or(String::new(), |sdk| format!("hooks-sdk is {sdk}\n"));
        let quoted = shell_quoted(&self.directory);
        let program = self.program.as_deref();
        let program = program.map_or(String::new(), |path| {
            format!("VIRT_HOOK={} ", shell_quoted(path))
        });
        if self.is_workspace {
            return format!(
                "{} is a workspace of hooks in {directory} ({own_files} files)\n{sdk}\nNext:\n  virt-hook new {quoted}/NAME    \
                 # adds a hook",
                style.strong(&self.name),
            );
        }
        format!(
            "{} is in {directory} ({own_files} files)\n{sdk}\nNext:\n  {program}make -C {quoted} test    \
             # builds and tests it\n  $EDITOR {quoted}/README.md",
            style.strong(&self.name),
        )
    }
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
