//! The templates that are part of this program.
//!
//! Every file below `templates/LANG` is copied; `{{name}}` and the like are replaced in contents and
//! in paths. `_gitignore` becomes `.gitignore`, and the ending `.in` is dropped, so that neither git
//! nor cargo takes a template for the real thing.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};

use super::embedded_files::{File, TEMPLATES};
use crate::exit_codes::Failure;

const DOT: &str = "_gitignore";
const ENDING: &str = ".in";

/// Values of `{{key}}`.
type Values = [(&'static str, String)];
/// Files that are copied unchanged.
type ExtraFiles<'a> = &'a [(PathBuf, &'static [u8])];

/// A language's template: its directory.
#[derive(Debug)]
pub(super) struct Template(&'static str);

impl Template {
    pub(super) fn of(directory: &'static str) -> Self {
        Self(directory)
    }

    /// Writes a project into a temporary directory and renames it, so that it appears complete.
    /// Returns its files.
    pub(super) fn write(
        &self,
        project: &Path,
        values: &Values,
        extra: ExtraFiles<'_>,
    ) -> Result<Vec<PathBuf>, Failure> {
        if project.symlink_metadata().is_ok() {
            let project = project.display();
            return Err(Failure::usage(anyhow!(
                "{project}: there is something already, which is left as it is: choose another name, or move it away first"
            )));
        }
        let above = match project.parent() {
            Some(above) if !above.as_os_str().is_empty() => above,
            _ => Path::new("."),
        };
        let written = self.write_below(above, project, values, extra);
        written.map_err(Failure::Machine)
    }

    fn write_below(
        &self,
        above: &Path,
        project: &Path,
        values: &Values,
        extra: ExtraFiles<'_>,
    ) -> Result<Vec<PathBuf>> {
        fs::create_dir_all(above).with_context(|| above.display().to_string())?;
        let part = tempfile::Builder::new().prefix(".new-").tempdir_in(above);
        let part = part.with_context(|| above.display().to_string())?;
        let mut files = Vec::new();
        for (file, path) in self.files() {
            let name = name(path, values);
            write_file(part.path(), &name, &filled(&file.bytes, values))?;
            files.push(name);
        }
        for (name, bytes) in extra {
            write_file(part.path(), name, bytes)?;
            files.push(name.clone());
        }
        files.sort();
        fs::rename(part.path(), project).with_context(|| project.display().to_string())?;
        open_to_all(project).with_context(|| project.display().to_string())?;
        Ok(files)
    }

    /// Its files, with their paths in the template.
    fn files(&self) -> impl Iterator<Item = (&'static File, &'static Path)> {
        let files = TEMPLATES.iter();
        files.filter_map(|file| Some((file, file.below(self.0)?)))
    }
}

fn name(path: &Path, values: &Values) -> PathBuf {
    let text = replaced(&path.to_string_lossy(), values);
    let text = text.strip_suffix(ENDING).unwrap_or(&text);
    PathBuf::from(match text.strip_suffix(DOT) {
        Some(directory) => format!("{directory}.gitignore"),
        None => text.to_owned(),
    })
}

fn filled(bytes: &[u8], values: &Values) -> Vec<u8> {
    match std::str::from_utf8(bytes) {
        Ok(text) => replaced(text, values).into_bytes(),
        Err(_) => bytes.to_owned(),
    }
}

fn write_file(project: &Path, name: &Path, bytes: &[u8]) -> Result<()> {
    let path = project.join(name);
    let written = || -> io::Result<()> {
        fs::create_dir_all(path.parent().unwrap_or(project))?;
        fs::write(&path, bytes)
    };
    written().with_context(|| path.display().to_string())
}

fn replaced(text: &str, values: &Values) -> String {
    let mut text = text.to_owned();
    for (key, value) in values {
        text = text.replace(&format!("{{{{{key}}}}}"), value);
    }
    text
}

/// Opens the directory to all: temporary directories have mode 0700.
fn open_to_all(directory: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(directory, fs::Permissions::from_mode(0o755))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn every_template_is_filled_in_and_complete() {
        let names = super::super::hook_name::Names::of(Path::new("team-label"));
        let mut values = names.unwrap().values("\"0.1\"");
        values.extend(super::super::hook_workspace::values(false));
        let extra = [(PathBuf::from("sdk/more.bin"), &b"{{name}}\xff"[..])];
        for lang in ["rust", "python", "c", "go"] {
            let temp_dir = tempfile::tempdir().unwrap();
            let project = temp_dir.path().join("below/team-label");
            let write = || Template::of(lang).write(&project, &values, &extra);
            let files = write().unwrap();
            for needed in ["Makefile", "README.md", ".gitignore", "sdk/more.bin"] {
                assert!(files.contains(&needed.into()), "{lang}: no {needed}");
            }
            assert!(files.iter().any(|file| file.starts_with("cases")), "{lang}");
            for file in &files {
                let bytes = fs::read(project.join(file)).unwrap();
                let as_it_was = file.ends_with("more.bin");
                let text = String::from_utf8_lossy(&bytes);
                assert_eq!(text.contains("{{name}}"), as_it_was, "{lang}: {file:?}");
                assert!(!file.to_string_lossy().contains("__pycache__"), "{file:?}");
            }
            assert!(matches!(write(), Err(Failure::Usage(_))), "{lang}");
            let left = fs::read_dir(project.parent().unwrap()).unwrap().count();
            assert_eq!(left, 1, "nothing is left beside the project");
        }
    }
}
