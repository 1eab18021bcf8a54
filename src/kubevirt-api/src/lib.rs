//! KubeVirt's types: the VMI and its options as virt-handler sends them, and the `Domain` JSON, metadata and states
//! as virt-handler reads them. Pure: no file, no process, no libvirt, no runtime.

pub mod domain_json;
pub mod domain_metadata;
pub mod domain_state;
pub mod kubevirt_version;
pub mod libvirt_migration_hook_protocol;
pub mod migration_metadata_values;
pub mod migration_options;
pub mod strict_json_or_yaml;
pub mod typed_xml;
pub mod virtual_machine_options;
pub mod vmi;
