//! The files of a case by name. A file that looks like one of them and is none is refused: a test that does not read
//! what the author wrote passes for the wrong reason.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::expected_files;
use crate::inputs::hint_of_missing;

/// The VMI, of which a case has one.
pub(super) const VMI: [&str; 2] = ["vmi.yaml", "vmi.json"];
pub(super) const OPTIONS: &str = "options.json";
pub(super) const HOST: &str = "host.json";
pub(super) const DOMAIN: &str = "domain.xml";
pub(super) const DEVICE: &str = "device.xml";
pub(super) const HOOK: &str = "hook.yaml";
pub(super) const POLICY: &str = "policy.yaml";
pub(super) const POD: &str = "pod.yaml";
pub(super) const MIGRATION: &str = "migration.json";
pub(super) const INVOCATION: &str = "invocation.json";
const INPUTS: [&str; 11] = [
    VMI[0], VMI[1], OPTIONS, HOST, DOMAIN, DEVICE, HOOK, POLICY, POD, MIGRATION, INVOCATION,
];
/// How authors call the file of a VirtualMachine.
const VM: &str = "vm";
/// How deep cases are looked for below a directory that is none.
const MAX_DEPTH: usize = 3;
/// Endings under which authors write the same content.
const ENDINGS: [&str; 4] = ["yaml", "yml", "json", "xml"];
/// The beginning of expectations, and of most of their misspellings.
const EXPECT: &str = "expect";

/// Whether a directory is a case. The error names a file that looks like one of a case and is not read.
pub(super) fn is_case(dir: &Path) -> Result<bool> {
    let names = names(dir)?;
    for name in &names {
        if let Some(advice) = misnamed(name) {
            bail!("{}: it is not read: {advice}", dir.join(name).display());
        }
        if is_known_name(name) {
            regular_file(dir, name)?;
        }
    }
    let is_of_case = |name: &&String| INPUTS.contains(&name.as_str()) || name.starts_with(EXPECT);
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
        [false, false] => match names.iter().find(is_of_case) {
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

/// A file of a case, if it is there. What is there and cannot be read as a file is an error: the case would pass without it.
pub(super) fn regular_file(dir: &Path, name: &str) -> Result<Option<PathBuf>> {
    let path = dir.join(name);
    if path.symlink_metadata().is_err() {
        return Ok(None);
    }
    let named = || path.display().to_string();
    // A link without a target is an error here.
    let metadata = fs::metadata(&path).with_context(named)?;
    if !metadata.is_file() {
        bail!("{}: it is not a regular file", path.display());
    }
    Ok(Some(path))
}

/// Refuses a link that leads nowhere, which may have been a case. Editors keep their locks in hidden ones.
pub(super) fn refuse_dangling(path: &Path) -> Result<()> {
    let is_hidden = path
        .file_name()
        .is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
    if path.is_symlink() && !path.exists() && !is_hidden {
        bail!("{}: it is a link without a target", path.display());
    }
    Ok(())
}

/// Refuses cases below a directory that is no case itself: they would not be run.
pub(super) fn refuse_cases_below(dir: &Path) -> Result<()> {
    match case_below(dir, MAX_DEPTH)? {
        None => Ok(()),
        Some(case) => bail!(
            "{}: it is a case, and not run: cases are in the folder that is named, and not deeper; `virt-hook test {}` runs it",
            case.display(),
            case.parent().unwrap_or(dir).display()
        ),
    }
}

fn case_below(dir: &Path, depth: usize) -> Result<Option<PathBuf>> {
    let named = || dir.display().to_string();
    let mut directories = Vec::new();
    for entry in fs::read_dir(dir).with_context(named)? {
        let entry = entry.with_context(named)?;
        if entry.file_type().with_context(named)?.is_dir() {
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

/// Refuses a policy or a hook.yaml that the cases of a folder would not share, and a folder that is not there.
pub(super) fn check_folder(dir: &Path) -> Result<()> {
    if let Some(hint) = hint_of_missing(dir, true) {
        bail!(
            "{}: there is no such folder of cases: {hint}",
            dir.display()
        );
    }
    let is_shared = |advice: &String| advice.contains(POLICY) || advice.contains(HOOK);
    for name in names(dir)? {
        if let Some(advice) = misnamed(&name).filter(is_shared) {
            bail!("{}: it is not read: {advice}", dir.join(name).display());
        }
    }
    Ok(())
}

/// The files of a directory, and what has the name of a case's file, without hidden ones and an editor's backups.
fn names(dir: &Path) -> Result<Vec<String>> {
    let named = || dir.display().to_string();
    let mut names = Vec::new();
    for entry in fs::read_dir(dir).with_context(named)? {
        let entry = entry.with_context(named)?;
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
    INPUTS.contains(&name) || is_expectation(name)
}

fn is_expectation(name: &str) -> bool {
    let of = name.strip_prefix(expected_files::PREFIX);
    of.is_some_and(|of| expected_files::NAMES.contains(&of))
}

/// Whether this is called as a VirtualMachine's manifest.
fn is_virtual_machine(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    let parts = lower.rsplit_once('.');
    parts.is_some_and(|(stem, ending)| stem == VM && ENDINGS.contains(&ending) && ending != "xml")
}

/// The right name, if this is nearly one of a case's files.
fn misnamed(name: &str) -> Option<String> {
    let lower = name.to_ascii_lowercase();
    if lower.starts_with(EXPECT) {
        let known = expected_files::NAMES.join(", ");
        return (!is_expectation(name))
            .then(|| format!("expectations are called expected. and one of {known}"));
    }
    let (stem, ending) = lower.rsplit_once('.')?;
    if INPUTS.contains(&name) || !ENDINGS.contains(&ending) {
        return None;
    }
    let known = INPUTS.into_iter();
    let known: Vec<&str> = known
        .filter(|known| known.rsplit_once('.').is_some_and(|(own, _)| own == stem))
        .collect();
    (!known.is_empty()).then(|| format!("a case has a {}", known.join(" or ")))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn misspelt_case_files_are_distinguished_from_other_files() {
        for name in [
            "expected.network_data",
            "expected.diffs",
            "expected-diff",
            "Expected.diff",
            "expected",
            "vmi.yml",
            "VMI.yaml",
            "policy.yml",
            "hook.yml",
            "host.yaml",
            "pod.json",
            "invocation.yaml",
        ] {
            assert!(misnamed(name).is_some(), "{name}");
        }
        assert!(
            misnamed("vmi.yml")
                .unwrap()
                .contains("vmi.yaml or vmi.json")
        );
        let known = expected_files::NAMES.map(|name| format!("expected.{name}"));
        let known = known.iter().map(String::as_str).chain(INPUTS);
        for name in known.chain(["README.md", "notes.yaml", "vmi.txt", "domain"]) {
            assert_eq!(misnamed(name), None, "{name}");
        }
    }

    #[test]
    fn a_directory_with_files_of_a_case_and_no_vmi_is_refused() {
        let temp_dir = tempfile::tempdir().unwrap();
        let write = |name: &str| fs::write(temp_dir.path().join(name), "").unwrap();
        write("README.md");
        write(".expected.diff.swp");
        write("expected.dif~");
        assert!(!is_case(temp_dir.path()).unwrap());
        write("expected.diff");
        let error = is_case(temp_dir.path()).unwrap_err().to_string();
        assert!(error.contains("no vmi.yaml"), "{error}");
        write("vmi.yaml");
        assert!(is_case(temp_dir.path()).unwrap());
        // Where the VirtualMachine is that the VMI is of.
        write("vm.yaml");
        assert!(is_case(temp_dir.path()).unwrap());
        write("vmi.json");
        assert!(is_case(temp_dir.path()).is_err());
    }
}
