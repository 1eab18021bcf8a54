//! The domain in a live migration: edits of its XML on source and target, the disks to copy, and the amount of data.
//!
//! ```text
//! libvirt's migratable XML ─ target_cpu_placement, migrated_volume_edits, decentralized_target_paths ─▶ target_xml =
//! persistent_xml
//! ```
//! The XML is edited as a tree, so that everything that no rule names (a hook's elements, the spelling of numbers)
//! reaches the target as the source's libvirt has written it. The rules are KubeVirt's.

mod copied_disks;
mod decentralized_target_paths;
mod disk_accessors;
mod error;
mod migrated_volume_edits;
mod taps_and_vgpus_on_target;
mod target_cpu_placement;
mod transfer_size;
mod xml_edits_on_source;
mod xml_edits_on_target;

pub use copied_disks::{disks_to_copy, migrated_volume_disks};
pub use error::MigrationXmlError;
pub use target_cpu_placement::TargetCpuPlacement;
pub use transfer_size::{completion_units, migrated_volume_bytes};
pub use xml_edits_on_source::{TargetEdits, target_xml};
pub use xml_edits_on_target::{IncomingEdits, incoming_xml};
