//! The inputs of hooks: one set of command-line options for all verbs that run hooks.

mod cloud_init_without_secrets;
mod cluster_dump;
mod default_options;
mod devices_not_shown;
mod domain_reason;
mod host_facts;
pub(crate) mod input_file;
mod instance_types_option;
mod made_up_facts;
mod manifest_paths;
mod notes_of_vmis;
mod pod_facts_file;
mod similar_name;
mod vm_manifest;
mod vmi_input;
mod vmi_source;

use std::path::{Path, PathBuf};

use clap::Args;
use hook_host::PolicySource;

use crate::verb_failure::Failure;

pub(crate) use cloud_init_without_secrets::CloudInitUnavailable;
pub(crate) use cluster_dump::{DumpContent, DumpEntry, read_and_convert_vmis};
pub(crate) use domain_reason::DomainReason;
pub(crate) use instance_types_option::InstanceTypesArgs;
pub(crate) use manifest_paths::{ManifestPaths, has_manifest_extension, in_directory};
pub(crate) use notes_of_vmis::NotesOfVmis;
pub(crate) use pod_facts_file::PodFactsInput;
pub(crate) use similar_name::hint_of_missing;
pub(crate) use vm_manifest::{InstanceTypes, notes_about_fields};
pub(crate) use vmi_input::VmiInput;
pub(crate) use vmi_source::{NamedVmi, VmiSource};

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
