//! The VMIs on which a hook is checked: the built-in ones and those of `--vmi`.

use std::path::{Path, PathBuf};

use anyhow::anyhow;

use super::check_finding::{CheckVerdict, Finding};
use crate::inputs::{
    InstanceTypes, InstanceTypesArgs, ManifestPaths, NamedVmi, NotesOfVmis, VmiInput, VmiSource,
    input_file,
};
use crate::output;
use crate::verb_failure::{Failure, error_text};

/// A file that marks the VMI beside it as one of a test case that expects an error.
const EXPECTED_ERROR_FILE: &str = "expected.error";

/// A VMI with its name in findings.
pub(super) struct CheckedVmi {
    pub(super) name: String,
    pub(super) input: VmiInput,
    pub(super) is_built_in: bool,
    /// Whether the hook may fail on the VMI, because it is that of a test case that expects an error.
    pub(super) expects_error: bool,
}

/// The VMIs on which a hook is checked.
pub(super) struct CheckedVmis {
    pub(super) vmis: Vec<CheckedVmi>,
    /// The reasons for which conversion refuses VMIs, without VMIs of test cases that expect an error.
    pub(super) refused: Vec<String>,
}

impl CheckedVmis {
    /// Reads the built-in VMIs, then those of files, directories and patterns. A file of a directory may have none.
    pub(super) fn read(
        paths: &[PathBuf],
        instance_types: &InstanceTypesArgs,
    ) -> Result<Self, Failure> {
        let instance_types = instance_types.read()?;
        let paths = ManifestPaths::find(paths).map_err(Failure::Usage)?;
        let built_in = read_built_in_vmi()?.into_iter();
        let built_in = built_in.map(|(name, input)| CheckedVmi {
            name: name.to_owned(),
            input,
            is_built_in: true,
            expects_error: false,
        });
        let mut all = Self {
            vmis: built_in.collect(),
            refused: Vec::new(),
        };
        let mut notes = NotesOfVmis::default();
        for path in &paths.files {
            all.add(path, &instance_types, &mut notes)?;
        }
        for path in &paths.of_directories {
            match all.add(path, &instance_types, &mut notes) {
                Err(failure @ Failure::Usage(_)) => output::note(&failure.line()),
                result => result?,
            }
        }
        notes.tell();
        Ok(all)
    }

    /// Adds the VMIs of a file.
    fn add(
        &mut self,
        path: &Path,
        instance_types: &InstanceTypes,
        notes: &mut NotesOfVmis,
    ) -> Result<(), Failure> {
        let file = input_file::name(path);
        let vmis = match VmiSource::on_any_node(path, instance_types).read_each(notes) {
            Ok(vmis) => vmis,
            Err(Failure::Refused(refusal)) => {
                self.refuse(path, error_text(&refusal));
                return Ok(());
            }
            Err(failure) => return Err(failure),
        };
        let several = vmis.len() > 1;
        for NamedVmi { name, input } in vmis {
            match input {
                Ok(input) => self.vmis.push(CheckedVmi {
                    name: if several { name } else { file.clone() },
                    input,
                    is_built_in: false,
                    expects_error: expects_error(path),
                }),
                // The text begins with the file's name.
                Err(Failure::Refused(refusal)) if several => {
                    self.refuse(path, format!("{name}: {}", error_text(&refusal)));
                }
                Err(Failure::Refused(refusal)) => self.refuse(path, error_text(&refusal)),
                Err(failure) => return Err(failure),
            }
        }
        Ok(())
    }

    fn refuse(&mut self, path: &Path, reason: String) {
        if !expects_error(path) {
            self.refused.push(reason);
        }
    }
}

/// A finding that lists the refused VMIs, if there are any.
pub(super) fn refused_vmis_finding(refused: Vec<String>) -> Option<Finding> {
    let has_refused = !refused.is_empty();
    let finding = Finding::from_details(
        "VMIs",
        refused,
        CheckVerdict::Failed,
        "all are converted",
        "these are refused before a hook is called, and the hook was not checked on them",
    );
    has_refused.then_some(finding)
}

/// Whether the VMI is that of a test case that expects an error.
fn expects_error(path: &Path) -> bool {
    path.with_file_name(EXPECTED_ERROR_FILE).is_file()
}

/// Names and manifests of the built-in VMIs, from the smallest to those with the most devices.
const BUILT_IN_VMIS: [(&str, &str); 6] = [
    ("minimal", include_str!("built_in_vmis/minimal.yaml")),
    ("linux", include_str!("built_in_vmis/linux.yaml")),
    ("windows", include_str!("built_in_vmis/windows.yaml")),
    ("disks", include_str!("built_in_vmis/disks.yaml")),
    ("networks", include_str!("built_in_vmis/networks.yaml")),
    (
        "performance",
        include_str!("built_in_vmis/performance.yaml"),
    ),
];

/// Reads and converts the built-in VMIs, and returns them with their names.
pub(super) fn read_built_in_vmi() -> Result<Vec<(&'static str, VmiInput)>, Failure> {
    let input = |(name, yaml)| {
        let input = VmiInput::on_any_node(yaml).map_err(|failure| {
            // An error in a built-in VMI is this program's own fault.
            Failure::internal(anyhow!("the built-in VMI {name}: {failure}"))
        })?;
        Ok((name, input))
    };
    BUILT_IN_VMIS.into_iter().map(input).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_vmis_have_the_listed_names() -> Result<(), Failure> {
        let vmis = read_built_in_vmi()?;
        assert_eq!(vmis.len(), BUILT_IN_VMIS.len());
        for (name, input) in vmis {
            assert_eq!(input.invocation.name, name);
        }
        Ok(())
    }
}
