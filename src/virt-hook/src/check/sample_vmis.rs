//! The sample VMIs on which every hook is checked.

use std::path::{Path, PathBuf};

use anyhow::anyhow;

use super::check_finding::{CheckVerdict, Finding};
use crate::exit_codes::{Failure, error_text};
use crate::inputs::{NamedVmi, VmiInput, VmiSource, input_file};

/// What a case has whose VMI may be refused.
const EXPECTED_ERROR: &str = "expected.error";

/// From the smallest VMI to those with the most devices.
const BUILT_IN: [(&str, &str); 6] = [
    ("minimal", include_str!("sample_vmis/minimal.yaml")),
    ("linux", include_str!("sample_vmis/linux.yaml")),
    ("windows", include_str!("sample_vmis/windows.yaml")),
    ("disks", include_str!("sample_vmis/disks.yaml")),
    ("networks", include_str!("sample_vmis/networks.yaml")),
    ("performance", include_str!("sample_vmis/performance.yaml")),
];

/// A VMI with its name in findings.
pub(super) struct SampleVmi {
    pub(super) name: String,
    pub(super) input: VmiInput,
    pub(super) is_built_in: bool,
    /// The hook may fail on it: it is the VMI of a case that is about an error.
    pub(super) expects_error: bool,
}

/// The VMIs that hooks are checked on.
pub(super) struct SampleVmis {
    pub(super) samples: Vec<SampleVmi>,
    /// The VMIs that conversion refuses, each with the reason, without those of cases that expect an error.
    refused: Vec<String>,
}

impl SampleVmis {
    /// The built-in VMIs, then those of the command line.
    pub(super) fn read(given: &[PathBuf]) -> Result<Self, Failure> {
        let mut samples = Vec::new();
        for (name, yaml) in BUILT_IN {
            let input = VmiInput::on_any_node(yaml).map_err(|failure| built_in(name, &failure))?;
            samples.push(SampleVmi {
                name: name.to_owned(),
                input,
                is_built_in: true,
                expects_error: false,
            });
        }
        let mut all = Self {
            samples,
            refused: Vec::new(),
        };
        for path in given {
            all.add(path)?;
        }
        Ok(all)
    }

    /// Adds the VMIs of a file.
    fn add(&mut self, path: &Path) -> Result<(), Failure> {
        let file = input_file::name(path);
        let vmis = match VmiSource::on_any_node(path).read_each() {
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
                Ok(input) => self.samples.push(SampleVmi {
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

    /// That VMIs are refused, if some are.
    pub(super) fn finding(&self) -> Option<Finding> {
        let finding = Finding::unless(
            "VMIs",
            self.refused.clone(),
            CheckVerdict::Failed,
            "all are converted",
            "these are refused before a hook is called, and the hook was not checked on them",
        );
        (!self.refused.is_empty()).then_some(finding)
    }
}

/// Whether the VMI is that of a case which expects an error.
fn expects_error(path: &Path) -> bool {
    path.with_file_name(EXPECTED_ERROR).is_file()
}

/// An error in a built-in VMI, which is this program's own fault.
fn built_in(name: &str, failure: &Failure) -> Failure {
    Failure::machine(anyhow!("the built-in VMI {name}: {failure}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_vmis_have_the_listed_names() -> Result<(), Failure> {
        let samples = SampleVmis::read(&[])?.samples;
        assert_eq!(samples.len(), BUILT_IN.len());
        for SampleVmi { name, input, .. } in samples {
            assert_eq!(input.invocation.name, name);
        }
        Ok(())
    }
}
