//! The inputs of hooks: one set of command-line options for all verbs that run hooks.

mod cloud_init_without_secrets;
mod cluster_dump;
mod default_options;
mod devices_not_shown;
mod domain_reason;
mod host_facts;
pub(crate) mod input_file;
mod made_up_facts;
mod manifest_paths;
mod pod_facts_file;
mod similar_name;
mod vm_manifest;
mod vmi_input;
mod vmi_source;

use std::path::PathBuf;

use clap::Args;
use hook_host::PolicySource;

pub(crate) use cloud_init_without_secrets::CloudInitUnavailable;
pub(crate) use cluster_dump::{DumpContent, DumpEntry, read_and_convert_vmis};
pub(crate) use domain_reason::DomainReason;
pub(crate) use manifest_paths::{ManifestPaths, in_directory};
pub(crate) use pod_facts_file::PodFactsInput;
pub(crate) use similar_name::hint_of_missing;
pub(crate) use vm_manifest::notes_about_fields;
pub(crate) use vmi_input::VmiInput;
pub(crate) use vmi_source::{NamedVmi, VmiSource};

/// A virtual machine, where it would run, and what its hooks may do.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct InputArgs {
    /// A VirtualMachineInstance, a VirtualMachine, or an object that carries one (a pool, a replica set, a Template),
    /// JSON or YAML; other objects may be beside it. `-` reads standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) vmi: PathBuf,
    /// The VMI to use, if the file has several
    #[arg(long, value_name = "[NAMESPACE/]NAME")]
    pub(crate) vmi_name: Option<String>,
    /// VirtualMachineOptions as virt-handler sends them, proto JSON [default: those of a default cluster]. Their plugins
    /// are not called
    #[arg(long, value_name = "FILE")]
    pub(crate) options: Option<PathBuf>,
    /// Facts about the node and the pod, JSON, as `virt-hook host-facts` writes them [default: those of this machine]
    #[arg(long, value_name = "FILE")]
    pub(crate) host: Option<PathBuf>,
    /// Instance types and preferences, in addition to those that KubeVirt installs: a list or several documents
    #[arg(long, value_name = "FILE")]
    pub(crate) instancetypes: Option<PathBuf>,
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
    /// The same inputs for the domain that hooks see: the launcher sets the disks' driver modes before it calls hooks.
    pub(crate) fn for_hooks(&self) -> Self {
        Self {
            prepared: true,
            ..self.clone()
        }
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
