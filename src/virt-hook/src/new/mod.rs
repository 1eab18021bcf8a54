//! `virt-hook new`: a project that builds and passes its tests.

mod names;
mod sdk;
mod template;

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde::Serialize;

use crate::failure::Failure;
use crate::output::{Report, Style};
use names::Names;
use sdk::Sdk;
use template::Template;

pub(crate) const HELP: &str = "\
The project has a hook that does one small thing, a README that says what to change, cases for
`virt-hook test`, and a Makefile: `make` builds the module, `make test` tests it.

Examples:
  virt-hook new team-label && make -C team-label test
  virt-hook new hooks/team-label --lang python

Exit codes:
  0  the project is there
  2  the name cannot be one, or there is something in its place
  3  it could not be written";

/// What `new` is given.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Where the project belongs; the last part is the hook's name, of a-z, 0-9 and -
    #[arg(value_name = "NAME")]
    place: PathBuf,
    /// What the hook is written in
    #[arg(long, value_enum, default_value_t, value_name = "LANG")]
    lang: Lang,
    /// Rust: the directory of hooks-sdk; when left out, that of the source tree around or behind
    /// this program, or else the published version
    #[arg(long, value_name = "DIR")]
    sdk: Option<PathBuf>,
}

/// A language that there is a template for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
enum Lang {
    #[default]
    Rust,
    Python,
    C,
}

/// A project that was made.
#[derive(Debug, Serialize)]
pub(crate) struct Made {
    name: String,
    lang: Lang,
    directory: PathBuf,
    /// Where a Rust project gets hooks-sdk from; others bring what they need.
    sdk: Option<String>,
    /// Relative to the directory.
    files: Vec<PathBuf>,
}

/// Makes the project; it is there whole or not at all.
pub(crate) fn run(arguments: &Arguments) -> Result<Made, Failure> {
    let names = Names::of(&arguments.place).map_err(Failure::Usage)?;
    let directory = arguments.lang.directory();
    let template = Template::of(directory).map_err(Failure::Machine)?;
    let sdk = Sdk::find(arguments.sdk.as_deref()).map_err(Failure::Usage)?;
    let values = names.values(&sdk.dependency());
    let files = template.write(&arguments.place, &values)?;
    Ok(Made {
        sdk: (arguments.lang == Lang::Rust).then(|| sdk.to_string()),
        name: names.name().to_owned(),
        lang: arguments.lang,
        directory: arguments.place.clone(),
        files,
    })
}

impl Lang {
    /// Below `templates`.
    fn directory(self) -> &'static str {
        match self {
            Self::Rust => "rust",
            Self::Python => "python",
            Self::C => "c",
        }
    }
}

impl Report for Made {
    fn text(&self, style: Style) -> String {
        // Pasted into a shell, whatever is in its name.
        let directory = self.directory.display().to_string();
        let quoted = shlex::try_quote(&directory).unwrap_or_default();
        let sdk = self.sdk.as_deref();
        let sdk = sdk.map_or(String::new(), |sdk| format!("hooks-sdk is {sdk}\n"));
        format!(
            "{} is in {directory} ({} files)\n{sdk}\nNext:\n  make -C {quoted} test    \
             # builds and tests it\n  $EDITOR {quoted}/README.md",
            style.strong(&self.name),
            self.files.len()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_next_can_be_pasted() {
        let made = |directory: &str| Made {
            name: "c".into(),
            lang: Lang::C,
            directory: directory.into(),
            files: Vec::new(),
            sdk: None,
        };
        assert!(
            made("hooks/c")
                .text(Style::default())
                .contains("make -C hooks/c test")
        );
        let text = made("a b/c").text(Style::default());
        assert!(text.contains("make -C 'a b/c' test"), "{text}");
    }
}
