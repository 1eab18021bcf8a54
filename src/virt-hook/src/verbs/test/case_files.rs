//! The files of a case by name. A file with a similar name that is not read is refused: a test that does not read what
//! the author wrote passes for the wrong reason.

#[cfg(test)]
mod tests;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::expected_files;
use crate::inputs::hint_of_missing;

/// The file of the VMI; a case has one of the two.
pub(super) const VMI: [&str; 2] = ["vmi.yaml", "vmi.json"];
pub(super) const OPTIONS: &str = "options.json";
pub(super) const HOST: &str = "host.json";
pub(super) const DOMAIN: &str = "domain.xml";
pub(super) const DEVICE: &str = "device.xml";
pub(super) const HOOK_YAML: &str = "hook.yaml";
pub(super) const POLICY: &str = "policy.yaml";
pub(super) const POD: &str = "pod.yaml";
pub(super) const MIGRATION: &str = "migration.json";
pub(super) const INVOCATION: &str = "invocation.json";
const INPUTS: [&str; 11] = [
    VMI[0], VMI[1], OPTIONS, HOST, DOMAIN, DEVICE, HOOK_YAML, POLICY, POD, MIGRATION, INVOCATION,
];
/// The stem of the name under which authors store a VirtualMachine.
const VM_STEM: &str = "vm";
/// The depth to which cases are searched below a directory that is not a case.
const MAX_DEPTH: usize = 3;
/// Extensions with which authors store the same content.
const EXTENSIONS: [&str; 4] = ["yaml", "yml", "json", "xml"];
/// The beginning of the names of expected files, and of most misspellings of them.
const EXPECTED_PREFIX: &str = "expect";

/// Whether a directory is a case. The error names a file that has a similar name as a case's file and is not read.
pub(super) fn is_case(dir: &Path) -> Result<bool> {
    let names = names(dir)?;
    for name in &names {
        if let Some(advice) = misspelling_advice(name) {
            bail!("{}: it is not read: {advice}", dir.join(name).display());
        }
        if is_known_name(name) {
            regular_file(dir, name)?;
        }
    }
    let is_case_file =
        |name: &&String| INPUTS.contains(&name.as_str()) || name.starts_with(EXPECTED_PREFIX);
    let has = VMI.map(|vmi| names.iter().any(|name| name == vmi));
    if let (false, Some(machine)) = (
        has.contains(&true),
        names.iter().find(|name| is_virtual_machine(name)),
    ) {
        bail!(
            "{}: it is not read: a case has a {} or {}, which may hold a VirtualMachine",
            dir.join(machine).display(),
            VMI[0],
            VMI[1]
        );
    }
    match has {
        [true, true] => bail!("{}: it has a {} and a {}", dir.display(), VMI[0], VMI[1]),
        [false, false] => match names.iter().find(is_case_file) {
            Some(file) => bail!(
                "{}: it has a {file} and no {} or {}: a case without a VMI is not run",
                dir.display(),
                VMI[0],
                VMI[1]
            ),
            None => Ok(false),
        },
        _ => Ok(true),
    }
}

/// The path of a case's file, if the file exists. Anything but a regular file is an error: the case would pass without
/// it.
pub(super) fn regular_file(dir: &Path, name: &str) -> Result<Option<PathBuf>> {
    let path = dir.join(name);
    if path.symlink_metadata().is_err() {
        return Ok(None);
    }
    let path_text = || path.display().to_string();
    // A link without a target is an error here.
    let metadata = fs::metadata(&path).with_context(path_text)?;
    if !metadata.is_file() {
        bail!("{}: it is not a regular file", path.display());
    }
    Ok(Some(path))
}

/// Refuses a link without a target, which may have been a case. Hidden links are locks of editors.
pub(super) fn refuse_dangling(path: &Path) -> Result<()> {
    let is_hidden = path
        .file_name()
        .is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
    if path.is_symlink() && !path.exists() && !is_hidden {
        bail!("{}: it is a link without a target", path.display());
    }
    Ok(())
}

/// Refuses cases below a directory that is not a case itself: they would not be run.
pub(super) fn refuse_cases_below(dir: &Path) -> Result<()> {
    match case_below(dir, MAX_DEPTH)? {
        None => Ok(()),
        Some(case) => bail!(
            "{}: this case is not run: `virt-hook test` runs only cases directly in the directory of its argument; `virt-hook test {}` runs it",
            case.display(),
            case.parent().unwrap_or(dir).display()
        ),
    }
}

fn case_below(dir: &Path, depth: usize) -> Result<Option<PathBuf>> {
    let dir_text = || dir.display().to_string();
    let mut directories = Vec::new();
    for entry in fs::read_dir(dir).with_context(dir_text)? {
        let entry = entry.with_context(dir_text)?;
        if entry.file_type().with_context(dir_text)?.is_dir() {
            directories.push(entry.path());
        }
    }
    directories.sort();
    for below in directories {
        let has_vmi = VMI
            .iter()
            .any(|vmi| below.join(vmi).symlink_metadata().is_ok());
        if has_vmi {
            return Ok(Some(below));
        }
        if depth > 1
            && let Some(case) = case_below(&below, depth - 1)?
        {
            return Ok(Some(case));
        }
    }
    Ok(None)
}

/// Refuses a directory that does not exist, and a misspelt policy or hook.yaml, which the cases of the directory would
/// not share.
pub(super) fn check_directory(dir: &Path) -> Result<()> {
    if let Some(hint) = hint_of_missing(dir, true) {
        bail!(
            "{}: there is no such directory of cases: {hint}",
            dir.display()
        );
    }
    let is_shared = |advice: &String| advice.contains(POLICY) || advice.contains(HOOK_YAML);
    for name in names(dir)? {
        if let Some(advice) = misspelling_advice(&name).filter(is_shared) {
            bail!("{}: it is not read: {advice}", dir.join(name).display());
        }
    }
    Ok(())
}

/// The names of the files in a directory, and of anything with the name of a case's file, without hidden files and
/// backups of editors.
fn names(dir: &Path) -> Result<Vec<String>> {
    let dir_text = || dir.display().to_string();
    let mut names = Vec::new();
    for entry in fs::read_dir(dir).with_context(dir_text)? {
        let entry = entry.with_context(dir_text)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_file = is_known_name(&name) || !entry.path().is_dir();
        if is_file && !name.starts_with('.') && !name.ends_with('~') {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

fn is_known_name(name: &str) -> bool {
    INPUTS.contains(&name) || is_expected_file(name)
}

fn is_expected_file(name: &str) -> bool {
    let suffix = name.strip_prefix(expected_files::PREFIX);
    suffix.is_some_and(|suffix| expected_files::NAMES.contains(&suffix))
}

/// Whether a file has the usual name of a VirtualMachine's manifest.
fn is_virtual_machine(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    let parts = lower.rsplit_once('.');
    parts.is_some_and(|(stem, extension)| {
        stem == VM_STEM && EXTENSIONS.contains(&extension) && extension != "xml"
    })
}

/// Advice on the right name, if the name is similar to that of a case's file.
fn misspelling_advice(name: &str) -> Option<String> {
    let lower = name.to_ascii_lowercase();
    if lower.starts_with(EXPECTED_PREFIX) {
        let known = expected_files::NAMES.join(", ");
        return (!is_expected_file(name))
            .then(|| format!("expected results are named expected. and one of {known}"));
    }
    let (stem, extension) = lower.rsplit_once('.')?;
    if INPUTS.contains(&name) || !EXTENSIONS.contains(&extension) {
        return None;
    }
    let known = INPUTS.into_iter();
    let known: Vec<&str> = known
        .filter(|known| {
            known
                .rsplit_once('.')
                .is_some_and(|(known, _)| known == stem)
        })
        .collect();
    (!known.is_empty()).then(|| format!("a case has a {}", known.join(" or ")))
}
