//! KubeVirt's types: the VMI and its options as virt-handler sends them, the `Domain` JSON, metadata and states
//! as virt-handler reads them. Pure: no file, no process, no libvirt, no runtime.

pub mod domain_json;
pub mod manifest_text;
pub mod metadata;
pub mod migration;
pub mod migration_hook;
pub mod migration_options;
pub mod options;
pub mod state;
pub mod typed_xml;
pub mod vmi;
