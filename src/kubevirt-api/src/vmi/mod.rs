//! A VirtualMachineInstance as virt-handler sends it: types for the fields that are read, and the original JSON.

mod claim_info;
mod cpu_and_memory;
mod devices;
mod disks;
mod error;
mod features;
mod gpus_host_devices_claims;
mod launch_security;
mod machine_firmware_clock;
mod manifest_kind;
mod metadata;
mod migration_state;
mod name_checks;
mod networks_and_interfaces;
mod object_only_structs;
mod parse_json_or_yaml;
mod spec;
mod status;
mod volumes;

use std::sync::Arc;

use serde::{Deserialize, Deserializer};
use serde_json::Value;

pub use claim_info::*;
pub use cpu_and_memory::*;
pub use devices::*;
pub use disks::*;
pub use error::VmiError;
pub use features::*;
pub use gpus_host_devices_claims::*;
pub use launch_security::*;
pub use machine_firmware_clock::*;
pub use metadata::*;
pub use migration_state::*;
pub use networks_and_interfaces::*;
pub use quantity::Quantity;
pub use spec::*;
pub use status::*;
pub use volumes::*;

/// The maximum size of a VMI in bytes.
pub const MAX_BYTES: usize = 4 * 1024 * 1024;

/// The annotation with which older clusters run QEMU as a user other than root.
const NON_ROOT_ANNOTATION: &str = "kubevirt.io/nonroot";
const ROOT_COMPLEX_ANNOTATION: &str = "kubevirt.io/placePCIDevicesOnRootComplex";

/// A VirtualMachineInstance.
#[derive(Debug, Clone)]
pub struct Vmi {
    /// Name, namespace, UID, annotations, labels.
    pub metadata: Metadata,
    /// The specification.
    pub spec: Spec,
    /// The status as the cluster records it.
    pub status: Status,
    raw: Arc<str>,
    value: Arc<Value>,
}

/// Decodes a null into the default value, as Go does.
pub fn null_as_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

impl Vmi {
    /// The VMI as JSON: the original text, or the conversion of a YAML manifest.
    pub fn raw_json(&self) -> &str {
        &self.raw
    }

    /// The VMI as a JSON tree, for fields that have no type here.
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// `metadata.name`, never empty.
    pub fn name(&self) -> &str {
        &self.metadata.name
    }

    /// `metadata.namespace`.
    pub fn namespace(&self) -> &str {
        &self.metadata.namespace
    }

    /// `metadata.uid`.
    pub fn uid(&self) -> &str {
        &self.metadata.uid
    }

    /// The libvirt domain's name: `NAMESPACE_NAME`.
    pub fn domain_name(&self) -> String {
        format!("{}_{}", self.metadata.namespace, self.metadata.name)
    }

    /// An annotation.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.metadata.annotations.get(key).map(String::as_str)
    }

    /// All annotations.
    pub fn annotations(&self) -> &std::collections::BTreeMap<String, String> {
        &self.metadata.annotations
    }

    /// Whether QEMU runs as a user other than root.
    pub fn is_non_root(&self) -> bool {
        self.status.runtime_user != 0 || self.annotation(NON_ROOT_ANNOTATION).is_some()
    }

    /// Whether virtio devices also work with drivers from before virtio 1.0.
    pub fn is_virtio_transitional(&self) -> bool {
        self.spec.domain.devices.use_virtio_transitional == Some(true)
    }

    /// The TPM, unless it is turned off.
    pub fn tpm(&self) -> Option<&Tpm> {
        let tpm = self.spec.domain.devices.tpm.as_ref();
        tpm.filter(|tpm| tpm.enabled.unwrap_or(true))
    }

    /// Whether the VM has a TPM whose state is persistent.
    pub fn has_persistent_tpm(&self) -> bool {
        self.tpm().is_some_and(|tpm| tpm.persistent == Some(true))
    }

    /// Whether PCI devices are on the root complex, not behind root ports.
    pub fn is_on_root_complex(&self) -> bool {
        self.annotation(ROOT_COMPLEX_ANNOTATION) == Some("true")
    }

    /// Seconds that the guest has to shut down; KubeVirt's default is 30.
    pub fn grace_period_seconds(&self) -> i64 {
        self.spec.termination_grace_period_seconds.unwrap_or(30)
    }

    /// Whether the guest starts paused.
    pub fn starts_paused(&self) -> bool {
        self.spec.start_strategy.as_deref() == Some("Paused")
    }

    /// The volume of this name.
    pub fn volume(&self, name: &str) -> Option<&Volume> {
        self.spec.volumes.iter().find(|volume| volume.name == name)
    }

    /// The cluster's status of the volume of this name.
    pub fn volume_status(&self, name: &str) -> Option<&VolumeStatus> {
        let mut statuses = self.status.volume_status.iter();
        statuses.find(|status| status.name == name)
    }

    /// The disk of the volume of this name.
    pub fn disk(&self, name: &str) -> Option<&Disk> {
        self.spec
            .domain
            .devices
            .disks
            .iter()
            .find(|disk| disk.name == name)
    }
}
