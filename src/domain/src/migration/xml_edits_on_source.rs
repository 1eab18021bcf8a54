//! Edits libvirt's migratable XML on the source, for the target.

use std::collections::BTreeMap;

use domain_xml::Document;
use kubevirt_api::vmi::Vmi;

use super::error::MigrationXmlError;
use super::target_cpu_placement::TargetCpuPlacement;
use super::{decentralized_target_paths, migrated_volume_edits};

/// Inputs of the edits that are not in the VMI's status.
#[derive(Debug, Clone, Default)]
pub struct TargetEdits {
    /// The placement on the target's CPUs, for a VM with dedicated CPUs; `None` if the target places the VM itself.
    pub cpu_placement: Option<TargetCpuPlacement>,
    /// Whether the source rewrites the paths of disks for the target; otherwise the target does.
    pub rewrites_disk_paths: bool,
    /// Virtual sizes in bytes of the disks of migrated volumes, by volume.
    pub disk_sizes: BTreeMap<String, u64>,
}

/// The domain that the target has to define and run. `xml` is libvirt's migratable XML.
///
/// # Errors
/// [`MigrationXmlError`] if the XML is invalid, or its disks or the target's CPUs do not fit the VMI.
pub fn target_xml(
    xml: String,
    vmi: &Vmi,
    edits: &TargetEdits,
) -> Result<String, MigrationXmlError> {
    let mut document =
        Document::parse_string(xml).map_err(crate::domain_spec_from_xml::ParseError::from)?;
    if edits.rewrites_disk_paths {
        decentralized_target_paths::rewrite_disk_paths(&mut document, vmi);
    }
    if let Some(cpu_placement) = &edits.cpu_placement {
        cpu_placement.apply(&mut document);
    }
    migrated_volume_edits::edit(&mut document, vmi, &edits.disk_sizes)?;
    // The target rewrites only the paths of disks (`xml_edits_on_target`), so the source always replaces the UID.
    Ok(decentralized_target_paths::replace_uid(
        document.render(),
        vmi,
    ))
}

#[cfg(test)]
mod tests;
