//! The inputs of hooks: one set of command-line options for all verbs that run hooks.

mod cloud_init_without_secrets;
mod cluster_dump;
mod default_options;
mod host_facts;
pub(crate) mod input_file;
mod made_up_facts;
mod manifest_paths;
mod pod_facts_file;
mod similar_name;
mod vm_manifest;
mod vmi_notes;
mod vmi_source;

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use domain::convert::architecture_names;
use hook_host::{PolicySource, Reason};
use serde::Deserialize;

use crate::verb_failure::Failure;
pub(crate) use cloud_init_without_secrets::CloudInitUnavailable;
pub(crate) use cluster_dump::{DumpContent, DumpEntry, read_and_convert_vmis};
pub(crate) use manifest_paths::{ManifestPaths, has_manifest_extension, in_directory};
pub(crate) use pod_facts_file::PodFactsInput;
pub(crate) use similar_name::hint_of_missing;
pub(crate) use vm_manifest::{InstanceTypes, notes_about_fields};
pub(crate) use vmi_notes::NotesOfVmis;
use vmi_source::MAX_MANIFEST;
pub(crate) use vmi_source::{NamedVmi, VmiInput, VmiSource};

/// A virtual machine.
#[derive(Debug, Clone, Args)]
pub(crate) struct VmiArgs {
    /// A VirtualMachineInstance, a VirtualMachine, or an object that carries one (a pool, a replica set, a Template),
    /// JSON or YAML; other objects may be beside it. `-` reads standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) vmi: PathBuf,
    /// The VMI to use, if the file has several
    #[arg(long, value_name = "[NAMESPACE/]NAME")]
    pub(crate) vmi_name: Option<String>,
}

/// Where a virtual machine would run, and what its hooks may do.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct InputArgs {
    /// VirtualMachineOptions as virt-handler sends them, proto JSON [default: those of a default cluster]. Their plugins
    /// are not called
    #[arg(long, value_name = "FILE")]
    pub(crate) options: Option<PathBuf>,
    /// Facts about the node and the pod, JSON, as `virt-hook host-facts` writes them [default: those of this machine]
    #[arg(long, value_name = "FILE")]
    pub(crate) host: Option<PathBuf>,
    /// The node's architecture [default: that of the VMI's spec.architecture, else this machine's]
    #[arg(long, value_name = "ARCHITECTURE", value_parser = architecture_names(), conflicts_with = "host")]
    pub(crate) arch: Option<String>,
    #[command(flatten)]
    pub(crate) instance_types: InstanceTypesArgs,
    /// Also set the disks' cache and IO modes, as the launcher does before a start; always so with hooks
    #[arg(long)]
    pub(crate) prepared: bool,
    /// The operator's policy, YAML; without it, hooks are granted their wishes, except the dangerous set,
    /// directories and facts about the pod
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: Option<PathBuf>,
    /// Facts about the pod, for hooks that read them: a Pod, or a map of annotations, labels, networkStatus and
    /// networkInfo; JSON or YAML
    #[arg(long, value_name = "FILE")]
    pub(crate) pod: Option<PathBuf>,
}

impl InputArgs {
    /// The source of the VMIs in a file. Hooks see the domain with the disks' driver modes, which the launcher sets before it
    /// calls hooks.
    pub(crate) fn source(&self, file: &Path, has_hooks: bool) -> Result<VmiSource, Failure> {
        Ok(VmiSource {
            file: file.to_owned(),
            options: self.options.clone(),
            host: self.host.clone(),
            arch: self.arch.clone(),
            instance_types: self.instance_types.read()?,
            prepared: self.prepared || has_hooks,
            ..VmiSource::default()
        })
    }

    /// The facts about the pod.
    pub(crate) fn pod(&self) -> PodFactsInput {
        PodFactsInput::from_file(self.pod.as_deref())
    }

    /// The operator's policy.
    pub(crate) fn policy(&self) -> PolicySource {
        match &self.policy {
            Some(path) => PolicySource::File(path.clone()),
            None => PolicySource::None,
        }
    }
}

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

/// A [`Reason`] for which a domain is made. Hook points other than those of a boot have a reason of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum DomainReason {
    /// The virtual machine starts here
    #[default]
    Boot,
    /// The virtual machine arrives from another node
    MigrationTarget,
}

impl From<DomainReason> for Reason {
    fn from(reason: DomainReason) -> Self {
        match reason {
            DomainReason::Boot => Self::Boot,
            DomainReason::MigrationTarget => Self::MigrationTarget,
        }
    }
}
