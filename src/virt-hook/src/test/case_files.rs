//! The files of a case by name. A file that looks like one of them and is none is refused: a test that does not read
//! what the author wrote passes for the wrong reason.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use super::expected_files;

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
const INPUTS: [&str; 10] = [
    VMI[0], VMI[1], OPTIONS, HOST, DOMAIN, DEVICE, HOOK, POLICY, POD, MIGRATION,
];
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
    }
    let is_known = |name: &&String| INPUTS.contains(&name.as_str()) || name.starts_with(EXPECT);
    match VMI.map(|vmi| names.iter().any(|name| name == vmi)) {
        [true, true] => bail!("{}: it has a {} and a {}", dir.display(), VMI[0], VMI[1]),
        [false, false] => match names.iter().find(is_known) {
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

/// Refuses a policy that the cases of a folder would not share.
pub(super) fn check_folder(dir: &Path) -> Result<()> {
    for name in names(dir)? {
        if let Some(advice) = misnamed(&name).filter(|advice| advice.contains(POLICY)) {
            bail!("{}: it is not read: {advice}", dir.join(name).display());
        }
    }
    Ok(())
}

/// The files of a directory, without hidden ones and an editor's backups.
fn names(dir: &Path) -> Result<Vec<String>> {
    let named = || dir.display().to_string();
    let mut names = Vec::new();
    for entry in fs::read_dir(dir).with_context(named)? {
        let entry = entry.with_context(named)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if !entry.path().is_dir() && !name.starts_with('.') && !name.ends_with('~') {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

/// The right name, if this is nearly one of a case's files.
fn misnamed(name: &str) -> Option<String> {
    let lower = name.to_ascii_lowercase();
    if lower.starts_with(EXPECT) {
        let is_known = expected_files::NAMES
            .iter()
            .any(|known| name.strip_prefix(expected_files::PREFIX) == Some(*known));
        let known = expected_files::NAMES.join(", ");
        return (!is_known)
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
    fn near_misses_are_told_from_other_files() {
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
        write("vmi.json");
        assert!(is_case(temp_dir.path()).is_err());
    }
}
