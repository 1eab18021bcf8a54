//! The VMIs on which a hook is checked: the built-in ones and those of `--vmi`.

use std::path::{Path, PathBuf};

use super::built_in_vmis::{self, DEFAULT_ARCHITECTURE};
use super::check_finding::{CheckVerdict, Finding};
use crate::inputs::{
    InstanceTypesArgs, ManifestPaths, NamedVmi, NotesOfVmis, VmiInput, VmiSource, input_file,
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
    /// Without an architecture, the built-in ones are amd64's, and each of the others is on a node of its own.
    pub(super) fn read(
        paths: &[PathBuf],
        instance_types: &InstanceTypesArgs,
        arch: Option<&str>,
    ) -> Result<Self, Failure> {
        let instance_types = instance_types.read()?;
        let paths = ManifestPaths::find(paths).map_err(Failure::Usage)?;
        let built_in = built_in_vmis::read(arch.unwrap_or(DEFAULT_ARCHITECTURE))?.into_iter();
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
        let source = |path: &Path| VmiSource {
            arch: arch.map(str::to_owned),
            ..VmiSource::on_any_node(path, &instance_types)
        };
        let mut notes = NotesOfVmis::default();
        for path in &paths.files {
            all.add(&source(path), &mut notes)?;
        }
        for path in &paths.of_directories {
            match all.add(&source(path), &mut notes) {
                Err(failure @ Failure::Usage(_)) => output::note(&failure.line()),
                result => result?,
            }
        }
        notes.tell();
        Ok(all)
    }

    /// Adds the VMIs of a file.
    fn add(&mut self, source: &VmiSource, notes: &mut NotesOfVmis) -> Result<(), Failure> {
        let path = source.file.as_path();
        let file = input_file::name(path);
        let vmis = match source.read_each(notes) {
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
