//! A workspace of hooks in Rust, which share the SDK, the lock file and the target directory.

use std::path::{Path, PathBuf};
use std::{fs, io};

use anyhow::{Context, Result, anyhow};
use toml_edit::{Array, DocumentMut, Value};

use super::sdk_source::{EmbeddedFile, TEMPLATES};
use crate::output_file;
use crate::temporary_directory::TemporaryDirectory;
use crate::verb_failure::Failure;

const MANIFEST: &str = "Cargo.toml";
/// The table with the list of members.
const TABLE: &str = "workspace";
/// The list to which new projects are added.
const MEMBERS: &str = "members";
/// The dependency by which a workspace of hooks is recognized.
const SDK: &str = "hooks-sdk";
/// The largest manifest that is read, in bytes.
const MAX_BYTES: u64 = 1 << 20;
/// The Cargo profile with which modules are built.
const PROFILE: &str = r#"# Hook modules: small, with the names that a crash's backtrace shows.
[profile.hook]
inherits = "release"
opt-level = "s"
lto = "fat"
codegen-units = 1
strip = "debuginfo"

# Reading the domain is most of what a hook computes; this costs 3 KB.
[profile.hook.package.hooks-sdk-domain-xml]
opt-level = 3"#;

/// A workspace of hooks, by its directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HookWorkspace(PathBuf);

impl HookWorkspace {
    /// The workspace of hooks in the parent directory of `project`. Any other workspace there is ignored.
    pub(super) fn around(project: &Path) -> Result<Option<Self>> {
        let parent = match project.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let path = parent.join(MANIFEST);
        let Ok(metadata) = fs::metadata(&path) else {
            return Ok(None);
        };
        if !metadata.is_file() || metadata.len() > MAX_BYTES {
            return Ok(None);
        }
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let parsed = text.parse::<DocumentMut>();
        let mut manifest = parsed.with_context(|| path.display().to_string())?;
        let dependencies = manifest
            .get(TABLE)
            .and_then(|table| table.get("dependencies"));
        if dependencies.and_then(|all| all.get(SDK)).is_none() {
            return Ok(None);
        }
        if members(&mut manifest).is_none() {
            return Err(no_members(&path));
        }
        // Before anything is written.
        output_file::refuse_link(&path)?;
        Ok(Some(Self(parent.to_owned())))
    }

    /// Adds the project `name` to the members.
    pub(super) fn add(&self, name: &str) -> Result<()> {
        let path = self.0.join(MANIFEST);
        let path_text = || path.display().to_string();
        let text = fs::read_to_string(&path).with_context(path_text)?;
        let text = with_member(&text, name).ok_or_else(|| no_members(&path))?;
        output_file::rewrite(&path, text.as_bytes())
    }
}

/// The values for the template of a project, which may be a member of a workspace.
pub(super) fn project_values(is_member: bool) -> [(&'static str, String); 2] {
    let own_workspace = format!(
        "\n\n# A project of its own, wherever it lies; the SDK is another.\n[workspace]\nexclude = [\"sdk\"]\n\n{PROFILE}"
    );
    match is_member {
        true => [
            ("workspace", String::new()),
            ("target", "../target".to_owned()),
        ],
        false => [
            ("workspace", own_workspace),
            ("target", "target".to_owned()),
        ],
    }
}

/// The values for the template of a workspace.
pub(super) fn workspace_values() -> [(&'static str, String); 1] {
    [("profile", PROFILE.to_owned())]
}

fn no_members(manifest: &Path) -> anyhow::Error {
    anyhow!(
        "{}: its table [{TABLE}] has no line `{MEMBERS} = [`, to which the project could be added: add one",
        manifest.display()
    )
}

/// The manifest with one more member; `None` if it has no list of members.
fn with_member(text: &str, name: &str) -> Option<String> {
    let mut manifest = text.parse::<DocumentMut>().ok()?;
    let members = members(&mut manifest)?;
    if members.is_empty() && trailing_text(members).contains('\n') {
        let before = format!("{}    ", trailing_text(members));
        members.push_formatted(Value::from(name).decorated(before, ""));
        members.set_trailing_comma(true);
        members.set_trailing("\n");
        return Some(manifest.to_string());
    }
    let prefix = members
        .get(0)
        .and_then(|first| first.decor().prefix()?.as_str());
    // A list with one member per line keeps that form.
    let indentation = prefix.and_then(|prefix| prefix.rsplit_once('\n'));
    let (prefix, between) = match (prefix, indentation) {
        (Some(prefix), Some((_, indentation))) => (prefix.to_owned(), format!("\n{indentation}")),
        _ => (String::new(), " ".to_owned()),
    };
    if let Some(first) = members.get_mut(0) {
        first.decor_mut().set_prefix(between);
    }
    members.insert_formatted(0, Value::from(name).decorated(prefix, ""));
    Some(manifest.to_string())
}

/// The text before the closing bracket.
fn trailing_text(members: &Array) -> &str {
    members.trailing().as_str().unwrap_or_default()
}

fn members(manifest: &mut DocumentMut) -> Option<&mut Array> {
    let workspace = manifest.get_mut(TABLE)?.as_table_like_mut()?;
    workspace.get_mut(MEMBERS)?.as_array_mut()
}

// Writes a project from a template that is embedded in this program.
//
// Every file below `templates/LANG` is copied; `{{name}}` and the like are replaced in contents and
// in paths. `_gitignore` becomes `.gitignore`, and the ending `.in` is dropped, so that neither git
// nor cargo takes a template for the real thing.

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

    const MANIFEST_TEXT: &str = "[workspace]\nmembers = [\n    \"a\",\n]\n\n[workspace.dependencies]\nhooks-sdk = { path = \"x\" }\n";

    #[test]
    fn a_member_is_added_to_the_list() {
        let temp_dir = tempfile::tempdir().unwrap();
        let manifest = temp_dir.path().join(MANIFEST);
        fs::write(&manifest, MANIFEST_TEXT).unwrap();
        let workspace = HookWorkspace::around(&temp_dir.path().join("b"))
            .unwrap()
            .unwrap();
        workspace.add("b").unwrap();
        let text = fs::read_to_string(&manifest).unwrap();
        assert_eq!(
            text,
            MANIFEST_TEXT.replace("[\n    \"a\"", "[\n    \"b\",\n    \"a\"")
        );
        assert_eq!(fs::read_dir(temp_dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn only_workspaces_of_hooks_are_joined() {
        let temp_dir = tempfile::tempdir().unwrap();
        let around = || HookWorkspace::around(&temp_dir.path().join("b"));
        assert_eq!(around().unwrap(), None);
        let write = |text: &str| fs::write(temp_dir.path().join(MANIFEST), text).unwrap();
        for manifest in [
            "[package]\nname = \"a\"\n",
            "[workspace]\nmembers = [\n]\n",
            &MANIFEST_TEXT.replace("hooks-sdk", "serde"),
        ] {
            write(manifest);
            assert_eq!(around().unwrap(), None, "{manifest}");
        }
        for replacement in [
            "",
            "default-members = ['a']",
            "[workspace.x]\nmembers = ['a']",
        ] {
            write(&MANIFEST_TEXT.replace("members = [\n    \"a\",\n]", replacement));
            let error = around().unwrap_err().to_string();
            assert!(error.contains("no line `members = [`"), "{error}");
        }
    }

    #[test]
    fn a_manifest_that_is_a_link_is_refused_before_anything_is_written() {
        let temp_dir = tempfile::tempdir().unwrap();
        fs::write(temp_dir.path().join("elsewhere.toml"), MANIFEST_TEXT).unwrap();
        let manifest = temp_dir.path().join(MANIFEST);
        std::os::unix::fs::symlink("elsewhere.toml", &manifest).unwrap();
        let error = HookWorkspace::around(&temp_dir.path().join("b")).unwrap_err();
        assert!(error.to_string().contains("a symbolic link"), "{error}");
    }

    #[test]
    fn a_member_is_added_to_lists_of_any_notation() {
        let list = "[\n    \"a\",\n]";
        for (before, after) in [
            ("['a']", "[\"b\", 'a']"),
            ("[ \"a\", \"c\" ] # two", "[\"b\", \"a\", \"c\" ] # two"),
            ("[]", "[\"b\"]"),
            ("[\n]", "[\n    \"b\",\n]"),
            ("[\n    # none yet\n]", "[\n    # none yet\n    \"b\",\n]"),
            ("[ # ours\n    'a'\n]", "[ # ours\n    \"b\",\n    'a'\n]"),
            ("['a',\n    'c']", "[\"b\", 'a',\n    'c']"),
        ] {
            let text = |list_now: &str| MANIFEST_TEXT.replace(list, list_now);
            let added = with_member(&text(before), "b").unwrap();
            assert_eq!(added, text(after));
        }
        let tight = with_member("[workspace]\nmembers=['a']\n", "b").unwrap();
        assert_eq!(tight, "[workspace]\nmembers=[\"b\", 'a']\n");
    }

    #[test]
    fn every_template_is_filled_in_and_complete() {
        let names = super::super::HookName::of_project(Path::new("team-label"));
        let mut values = names.unwrap().values("\"0.1\"");
        values.extend(project_values(false));
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
