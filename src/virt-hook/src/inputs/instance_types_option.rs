//! The option of all verbs that make a VMI of a VirtualMachine: its instance type and preference are looked up.

use std::path::PathBuf;

use clap::Args;

use super::input_file;
use super::vm_manifest::InstanceTypes;
use super::vmi_source::MAX_MANIFEST;
use crate::verb_failure::Failure;

/// Instance types and preferences beside those that KubeVirt installs.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct InstanceTypesArgs {
    /// Instance types and preferences, in addition to those that KubeVirt installs: a list or several documents
    #[arg(long, value_name = "FILE")]
    instancetypes: Option<PathBuf>,
}

impl InstanceTypesArgs {
    /// Those of the file; none without a file.
    pub(crate) fn read(&self) -> Result<InstanceTypes, Failure> {
        let Some(path) = &self.instancetypes else {
            return Ok(InstanceTypes::default());
        };
        let bytes = input_file::read(path, MAX_MANIFEST)?;
        InstanceTypes::read(&bytes).map_err(|error| {
            Failure::Usage(anyhow::Error::new(error).context(input_file::name(path)))
        })
    }
}
