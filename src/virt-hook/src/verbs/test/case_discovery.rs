//! Finds the cases of a directory, and checks the files that they share.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use hook_host::PolicySource;
use hook_host::policy::{HookYaml, OperatorPolicy};

use super::case_files::{self, HOOK_YAML, POLICY, VMI};
use super::test_case::Case;
use crate::granted_dirs::{GrantedDirs, not_granted};
use crate::inputs::InstanceTypes;
use crate::verb_failure::Failure;

/// What the cases have in common.
struct SharedFiles {
    instance_types: InstanceTypes,
    policy: Option<PathBuf>,
    settings: Option<PathBuf>,
}

impl Case {
    /// The cases of a directory, sorted by name, or the directory itself if it is a case. Cases without a policy get
    /// `policy`, or the one in the directory of cases; those without a hook.yaml get the one in the directory.
    pub(super) fn find(
        dir: &Path,
        policy: Option<&Path>,
        instance_types: &InstanceTypes,
    ) -> Result<Vec<Self>> {
        if let Some(policy) = policy {
            File::open(policy).with_context(|| policy.display().to_string())?;
        }
        let shared = |directory: &Path| -> Result<SharedFiles> {
            Ok(SharedFiles {
                instance_types: instance_types.clone(),
                policy: match policy {
                    Some(policy) => Some(policy.to_owned()),
                    None => case_files::regular_file(directory, POLICY)?,
                },
                settings: case_files::regular_file(directory, HOOK_YAML)?,
            })
        };
        let has_vmi = VMI
            .iter()
            .any(|vmi| dir.join(vmi).symlink_metadata().is_ok());
        if has_vmi && case_files::is_case(dir)? {
            // Other files in the parent directory may not belong to the tests, and are not checked.
            let directory = dir.join("..");
            return Ok(vec![Self::at(dir, shared(&directory)?)?]);
        }
        let dir_text = || dir.display().to_string();
        case_files::check_directory(dir)?;
        let mut cases = Vec::new();
        for entry in fs::read_dir(dir).with_context(dir_text)? {
            let path = entry.with_context(dir_text)?.path();
            if !path.is_dir() {
                case_files::refuse_dangling(&path)?;
                continue;
            }
            if case_files::is_case(&path)? {
                cases.push(Self::at(&path, shared(dir)?)?);
            } else {
                case_files::refuse_cases_below(&path)?;
            }
        }
        cases.sort_by(|a, b| a.name.cmp(&b.name));
        // If the directory is a case with a misnamed VMI, this check names the file.
        if cases.is_empty() && !case_files::is_case(dir)? {
            return Err(no_cases(dir));
        }
        Ok(cases)
    }

    /// Checks the files that cases share: an error in them is an error of the command, and not of each case.
    pub(super) fn check_shared_files(cases: &[Self]) -> Result<(), Failure> {
        let shared_files = |name, file: fn(&Self) -> Option<&PathBuf>| {
            let cases = cases.iter().filter(move |case| case.file(name).is_none());
            cases.filter_map(file).collect::<BTreeSet<_>>()
        };
        for policy in shared_files(POLICY, |case| case.shared_policy.as_ref()) {
            OperatorPolicy::read(&PolicySource::File(policy.clone())).map_err(Failure::usage)?;
        }
        for settings in shared_files(HOOK_YAML, |case| case.shared_settings.as_ref()) {
            let text = HookYaml::text(settings).map_err(Failure::usage)?;
            HookYaml::parse(settings, &text.unwrap_or_default()).map_err(Failure::usage)?;
        }
        Ok(())
    }

    /// Refuses a policy beside or in the cases that grants a directory which the command line does not name: cases can
    /// come with a stranger's module. `policy` is the one of the command line, which may grant any.
    pub(super) fn check_granted_dirs(
        cases: &[Self],
        policy: Option<&Path>,
        granted: &GrantedDirs,
    ) -> Result<(), Failure> {
        let policies: BTreeSet<PathBuf> = cases.iter().filter_map(Self::policy).collect();
        for path in policies
            .iter()
            .filter(|path| Some(path.as_path()) != policy)
        {
            // The case ends in the error of a policy that cannot be read.
            let read = OperatorPolicy::read(&PolicySource::File(path.clone()));
            let Ok(Some(operator)) = read else {
                continue;
            };
            for dir in operator.directories() {
                if !granted.covers(dir) {
                    let policy = path.display().to_string();
                    return Err(Failure::Usage(not_granted(&policy, dir)));
                }
            }
        }
        Ok(())
    }

    fn at(dir: &Path, shared: SharedFiles) -> Result<Self> {
        let mut vmi = VMI.map(|name| dir.join(name)).into_iter();
        let vmi = vmi.find(|path| path.exists());
        let resolved = dir.canonicalize();
        let resolved = resolved.with_context(|| dir.display().to_string())?;
        let name = resolved.file_name().unwrap_or(resolved.as_os_str());
        Ok(Self {
            name: name.to_string_lossy().into_owned(),
            dir: dir.to_owned(),
            vmi: vmi.unwrap_or_else(|| dir.join(VMI[0])),
            instance_types: shared.instance_types,
            shared_policy: shared.policy,
            shared_settings: shared.settings,
        })
    }
}

/// The error for a directory without cases.
fn no_cases(dir: &Path) -> anyhow::Error {
    anyhow!(
        "{}: no case in it: a case is a directory with a vmi.yaml or vmi.json",
        dir.display()
    )
}
