//! Writes a project from a template that is embedded in this program.
//!
//! Every file below `templates/LANG` is copied; `{{name}}` and the like are replaced in contents and
//! in paths. `_gitignore` becomes `.gitignore`, and the ending `.in` is dropped, so that neither git
//! nor cargo takes a template for the real thing.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};

use super::embedded_files::{EmbeddedFile, TEMPLATES};
use crate::temporary_directory::TemporaryDirectory;
use crate::verb_failure::Failure;

const GITIGNORE_NAME: &str = "_gitignore";
const TEMPLATE_SUFFIX: &str = ".in";

/// Values of `{{key}}`.
type Values = [(&'static str, String)];
/// Paths and contents of files that are written unchanged.
type ExtraFiles<'a> = &'a [(PathBuf, &'static [u8])];

/// A template, by its directory below `templates`.
#[derive(Debug)]
pub(super) struct ProjectTemplate(&'static str);

impl ProjectTemplate {
    pub(super) fn new(directory: &'static str) -> Self {
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
                "{project}: it exists already, and is not overwritten: choose another name, or move it away first"
            )));
        }
        let parent = match project.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let files = self.write_below(parent, project, values, extra);
        files.map_err(Failure::Internal)
    }

    fn write_below(
        &self,
        parent: &Path,
        project: &Path,
        values: &Values,
        extra: ExtraFiles<'_>,
    ) -> Result<Vec<PathBuf>> {
        fs::create_dir_all(parent).with_context(|| parent.display().to_string())?;
        let temp_dir = TemporaryDirectory::new_in(parent, ".new-");
        let temp_dir = temp_dir.with_context(|| parent.display().to_string())?;
        let mut files = Vec::new();
        for (file, path) in self.files() {
            let name = project_path(path, values);
            write_file(temp_dir.path(), &name, &fill_in(&file.bytes, values))?;
            files.push(name);
        }
        for (name, bytes) in extra {
            write_file(temp_dir.path(), name, bytes)?;
            files.push(name.clone());
        }
        files.sort();
        fs::rename(temp_dir.path(), project).with_context(|| project.display().to_string())?;
        make_readable_by_all(project).with_context(|| project.display().to_string())?;
        Ok(files)
    }

    /// The files of the template, with their paths in it.
    fn files(&self) -> impl Iterator<Item = (&'static EmbeddedFile, &'static Path)> {
        let files = TEMPLATES.iter();
        files.filter_map(|file| Some((file, file.below(self.0)?)))
    }
}

/// The path in the project of a file of the template.
fn project_path(path: &Path, values: &Values) -> PathBuf {
    let text = replace_values(&path.to_string_lossy(), values);
    let text = text.strip_suffix(TEMPLATE_SUFFIX).unwrap_or(&text);
    PathBuf::from(match text.strip_suffix(GITIGNORE_NAME) {
        Some(directory) => format!("{directory}.gitignore"),
        None => text.to_owned(),
    })
}

fn fill_in(bytes: &[u8], values: &Values) -> Vec<u8> {
    match std::str::from_utf8(bytes) {
        Ok(text) => replace_values(text, values).into_bytes(),
        Err(_) => bytes.to_owned(),
    }
}

fn write_file(project: &Path, name: &Path, bytes: &[u8]) -> Result<()> {
    let path = project.join(name);
    let write = || -> io::Result<()> {
        fs::create_dir_all(path.parent().unwrap_or(project))?;
        fs::write(&path, bytes)
    };
    write().with_context(|| path.display().to_string())
}

fn replace_values(text: &str, values: &Values) -> String {
    let mut text = text.to_owned();
    for (key, value) in values {
        text = text.replace(&format!("{{{{{key}}}}}"), value);
    }
    text
}

/// Opens the directory to all: temporary directories have mode 0700.
fn make_readable_by_all(directory: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(directory, fs::Permissions::from_mode(0o755))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_template_is_filled_in_and_complete() {
        let names = super::super::hook_name::HookName::of_project(Path::new("team-label"));
        let mut values = names.unwrap().values("\"0.1\"");
        values.extend(super::super::hook_workspace::project_values(false));
        let extra = [(PathBuf::from("sdk/more.bin"), &b"{{name}}\xff"[..])];
        for lang in ["rust", "python", "c", "go"] {
            let temp_dir = tempfile::tempdir().unwrap();
            let project = temp_dir.path().join("below/team-label");
            let write = || ProjectTemplate::new(lang).write(&project, &values, &extra);
            let files = write().unwrap();
            for needed in ["Makefile", "README.md", ".gitignore", "sdk/more.bin"] {
                assert!(files.contains(&needed.into()), "{lang}: no {needed}");
            }
            assert!(files.iter().any(|file| file.starts_with("cases")), "{lang}");
            for file in &files {
                let bytes = fs::read(project.join(file)).unwrap();
                let is_unchanged = file.ends_with("more.bin");
                let text = String::from_utf8_lossy(&bytes);
                assert_eq!(text.contains("{{name}}"), is_unchanged, "{lang}: {file:?}");
                assert!(!file.to_string_lossy().contains("__pycache__"), "{file:?}");
            }
            assert!(matches!(write(), Err(Failure::Usage(_))), "{lang}");
            let entry_count = fs::read_dir(project.parent().unwrap()).unwrap().count();
            assert_eq!(entry_count, 1, "nothing is left beside the project");
        }
    }
}
