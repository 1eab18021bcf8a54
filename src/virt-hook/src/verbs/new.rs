//! `virt-hook new`: a project that builds and passes its tests.

mod hook_workspace;
mod sdk_source;

use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow, bail};
use clap::{Args, ValueEnum};
use serde::Serialize;

use crate::output::{Report, Style};
use crate::output_file::shell_quoted;
use crate::program_in_path;
use crate::verb_failure::Failure;
use hook_workspace::{HookWorkspace, ProjectTemplate};
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

/// Maximum length of a name, which may become part of a Kubernetes label.
const MAX_LENGTH: usize = 53;
/// Names that the hook's type must not have: those of the SDK, some of which the template imports, and those that are
/// in scope in every file.
const TAKEN_TYPES: [&str; 43] = [
    "AsMut",
    "AsRef",
    "Box",
    "Clone",
    "CloudConfig",
    "CloudInit",
    "CloudInitError",
    "Context",
    "Copy",
    "Debug",
    "Default",
    "Description",
    "Device",
    "Disk",
    "Domain",
    "Drop",
    "Element",
    "Eq",
    "Err",
    "Error",
    "Fn",
    "From",
    "Hook",
    "HookPoint",
    "HostDevice",
    "Interface",
    "Into",
    "Iterator",
    "Json",
    "Migration",
    "Network",
    "None",
    "Ok",
    "Option",
    "Ord",
    "Result",
    "Some",
    "String",
    "Value",
    "Vec",
    "Vmi",
    "Volume",
    "Yaml",
];
/// Keywords of Rust that are valid as names otherwise.
const RUST_KEYWORDS: [&str; 50] = [
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "crate",
    "do", "dyn", "else", "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl",
    "in", "let", "loop", "macro", "match", "mod", "move", "mut", "override", "priv", "pub", "ref",
    "return", "self", "static", "struct", "super", "trait", "true", "try", "type", "typeof",
    "unsafe", "use", "virtual", "where", "while", "yield",
];

/// The valid name of a hook.
#[derive(Debug, Clone, PartialEq, Eq)]
struct HookName(String);

impl HookName {
    /// The last part of a project's path, if it is a valid name.
    fn of_project(project: &Path) -> Result<Self> {
        let name = project.file_name().unwrap_or_default().to_string_lossy();
        let is_allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let begins_with_letter = name.starts_with(|c: char| c.is_ascii_lowercase());
        if !begins_with_letter
            || !name.chars().all(is_allowed)
            || name.ends_with('-')
            || name.len() > MAX_LENGTH
        {
            bail!(
                "{name:?} is not a name for a hook: it has a-z, 0-9 and -, begins with a letter, does \
                 not end with - and has at most {MAX_LENGTH} characters"
            );
        }
        // Cargo would refuse these later, with a less clear message.
        if ["test", "core", "std", "alloc", "hooks-sdk"].contains(&name.as_ref()) {
            bail!("{name:?} is the name of something that Rust projects use: choose another name");
        }
        if RUST_KEYWORDS.contains(&name.as_ref()) {
            bail!(
                "{name:?} is a keyword of Rust, and not possible as the name of a crate: choose another name, such as {name}-hook"
            );
        }
        Ok(Self(name.into_owned()))
    }

    fn name(&self) -> &str {
        &self.0
    }

    /// The values of `{{key}}` in templates.
    fn values(&self, dependency: &str) -> Vec<(&'static str, String)> {
        vec![
            ("name", self.0.clone()),
            ("crate", self.0.replace('-', "_")),
            ("type", self.type_name()),
            ("sdk", dependency.to_owned()),
        ]
    }

    /// The name of the hook's type; `vmi` becomes `VmiHook`, since the SDK has a type `Vmi`.
    fn type_name(&self) -> String {
        let name: String = self.0.split('-').map(capitalized).collect();
        match TAKEN_TYPES.contains(&name.as_str()) {
            true => format!("{name}Hook"),
            false => name,
        }
    }
}

fn capitalized(word: &str) -> String {
    let mut letters = word.chars();
    let first = letters.next().map(|c| c.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
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

    #[test]
    fn a_name_has_three_forms() {
        let values = HookName::of_project(Path::new("a/team-label2"))
            .unwrap()
            .values("x");
        let texts: Vec<&str> = values.iter().map(|(_, text)| text.as_str()).collect();
        assert_eq!(texts, ["team-label2", "team_label2", "TeamLabel2", "x"]);
    }

    /// The name of a hook whose type would have this name: `hook-point` for `HookPoint`.
    fn hook_name_for_type(type_name: &str) -> String {
        let mut name = String::new();
        for letter in type_name.chars() {
            if letter.is_ascii_uppercase() && !name.is_empty() {
                name.push('-');
            }
            name.push(letter.to_ascii_lowercase());
        }
        name
    }

    #[test]
    fn hook_type_does_not_collide_with_types_of_the_template() {
        let template = include_str!("../../templates/rust/src/lib.rs");
        let (_, imports) = template.split_once("use hooks_sdk::{").unwrap();
        let (imports, _) = imports.split_once("};").unwrap();
        let imports = imports.split(',').map(str::trim);
        let types = imports.filter(|name| name.starts_with(|c: char| c.is_ascii_uppercase()));
        let types: Vec<&str> = types.collect();
        assert!(types.contains(&"HookPoint"), "{types:?}");
        for type_name in types.into_iter().chain(["Ok", "Err", "String", "Value"]) {
            let names = HookName::of_project(Path::new(&hook_name_for_type(type_name))).unwrap();
            assert_eq!(names.type_name(), format!("{type_name}Hook"));
        }
    }

    #[test]
    fn invalid_names_are_refused() {
        for name in [
            "",
            "..",
            "Team",
            "2x",
            "a_b",
            "a-",
            "test",
            "self",
            "fn",
            "ä",
            "a b",
            &"x".repeat(54),
        ] {
            assert!(HookName::of_project(Path::new(name)).is_err(), "{name}");
        }
    }
}
