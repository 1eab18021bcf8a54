//! The templates that are part of this program.
//!
//! Every file below `templates/LANG` is copied; `{{name}}` and the like are replaced in contents and
//! in paths. `_gitignore` becomes `.gitignore`, and the ending `.in` is dropped, so that neither git
//! nor cargo takes a template for the real thing.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use include_dir::{Dir, File, include_dir};

use crate::failure::Failure;

static TEMPLATES: Dir<'static> = include_dir!("$CARGO_MANIFEST_DIR/templates");
const DOT: &str = "_gitignore";
const ENDING: &str = ".in";

/// What stands for what.
type Values = [(&'static str, String)];

/// A language's template.
#[derive(Debug)]
pub(super) struct Template(&'static Dir<'static>);

impl Template {
    pub(super) fn of(directory: &str) -> Result<Self> {
        let template = TEMPLATES.get_dir(directory);
        template
            .map(Self)
            .ok_or_else(|| anyhow!("this program was built without the template {directory}"))
    }

    /// Writes a project beside its place and moves it there, so that it is whole or not at all.
    /// Gives its files.
    pub(super) fn write(&self, place: &Path, values: &Values) -> Result<Vec<PathBuf>, Failure> {
        if place.symlink_metadata().is_ok() {
            let place = place.display();
            return Err(Failure::usage(anyhow!(
                "{place}: there is something already"
            )));
        }
        let above = match place.parent() {
            Some(above) if !above.as_os_str().is_empty() => above,
            _ => Path::new("."),
        };
        let written = self.write_below(above, place, values);
        written.map_err(Failure::Machine)
    }

    fn write_below(&self, above: &Path, place: &Path, values: &Values) -> Result<Vec<PathBuf>> {
        fs::create_dir_all(above).with_context(|| above.display().to_string())?;
        let part = tempfile::Builder::new().prefix(".new-").tempdir_in(above);
        let part = part.with_context(|| above.display().to_string())?;
        let mut files = Vec::new();
        for file in files_of(self.0) {
            let name = self.name(file, values);
            let path = part.path().join(&name);
            write_file(&path, file, values).with_context(|| path.display().to_string())?;
            files.push(name);
        }
        files.sort();
        fs::rename(part.path(), place).with_context(|| place.display().to_string())?;
        open_to_all(place).with_context(|| place.display().to_string())?;
        Ok(files)
    }

    fn name(&self, file: &File<'_>, values: &Values) -> PathBuf {
        let path = file
            .path()
            .strip_prefix(self.0.path())
            .unwrap_or(file.path());
        let text = replaced(&path.to_string_lossy(), values);
        let text = text.strip_suffix(ENDING).unwrap_or(&text).to_owned();
        PathBuf::from(match text.strip_suffix(DOT) {
            Some(directory) => format!("{directory}.gitignore"),
            None => text,
        })
    }
}

fn files_of(directory: &'static Dir<'static>) -> Vec<&'static File<'static>> {
    let mut files: Vec<_> = directory.files().collect();
    files.extend(directory.dirs().flat_map(files_of));
    files
}

fn write_file(path: &Path, file: &File<'_>, values: &Values) -> std::io::Result<()> {
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    match file.contents_utf8() {
        Some(text) => fs::write(path, replaced(text, values)),
        None => fs::write(path, file.contents()),
    }
}

fn replaced(text: &str, values: &Values) -> String {
    let mut text = text.to_owned();
    for (key, value) in values {
        text = text.replace(&format!("{{{{{key}}}}}"), value);
    }
    text
}

/// Temporary directories are for their owner alone.
fn open_to_all(directory: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(directory, fs::Permissions::from_mode(0o755))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn every_template_is_filled_in_and_complete() {
        let values = super::super::names::Names::of(Path::new("team-label"))
            .unwrap()
            .values("\"0.1\"");
        for lang in ["rust", "python", "c"] {
            let place = tempfile::tempdir().unwrap();
            let project = place.path().join("below/team-label");
            let files = Template::of(lang)
                .unwrap()
                .write(&project, &values)
                .unwrap();
            for needed in ["Makefile", "README.md", ".gitignore"] {
                assert!(files.contains(&needed.into()), "{lang}: no {needed}");
            }
            assert!(files.iter().any(|file| file.starts_with("cases")), "{lang}");
            for file in &files {
                let bytes = fs::read(project.join(file)).unwrap();
                let text = String::from_utf8_lossy(&bytes);
                assert!(!text.contains("{{name}}"), "{lang}: {file:?}");
            }
            let again = Template::of(lang).unwrap().write(&project, &values);
            assert!(matches!(again, Err(Failure::Usage(_))), "{lang}");
            let left = fs::read_dir(project.parent().unwrap()).unwrap().count();
            assert_eq!(left, 1, "nothing is left beside the project");
        }
    }
}
