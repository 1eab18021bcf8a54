//! Edits libvirt's migratable XML on the source, for the target.

use std::collections::BTreeMap;

use domain_xml::Document;
use kubevirt_api::vmi::Vmi;

use super::cpu_placement::TargetCpuPlacement;
use super::error::MigrationXmlError;
use super::{decentralized_target_paths, migrated_volume_edits};

/// Edits that the VMI's status does not determine.
#[derive(Debug, Clone, Default)]
pub struct DestinationEdits {
    /// The placement on the target's CPUs, for a VM with dedicated CPUs; `None` if the target places the VM itself.
    pub processors: Option<TargetCpuPlacement>,
    /// Whether the source rewrites the paths of files for the target; otherwise the target does.
    pub names_files: bool,
    /// Virtual sizes in bytes of the disks of migrated volumes, by volume.
    pub disk_sizes: BTreeMap<String, u64>,
}

/// The domain that the target has to define and run. `xml` is libvirt's migratable XML.
///
/// # Errors
/// [`MigrationXmlError`] if the XML is invalid, or its disks or the target's CPUs do not fit the VMI.
pub fn destination_xml(
    xml: String,
    vmi: &Vmi,
    edits: &DestinationEdits,
) -> Result<String, MigrationXmlError> {
    let mut document =
        Document::parse_string(xml).map_err(crate::parse_domain_xml::ParseError::from)?;
    if edits.names_files {
        decentralized_target_paths::rewrite_disk_paths(&mut document, vmi);
    }
    if let Some(processors) = &edits.processors {
        processors.apply(&mut document);
    }
    migrated_volume_edits::edit(&mut document, vmi, &edits.disk_sizes)?;
    Ok(decentralized_target_paths::replace_uid(
        document.render(),
        vmi,
    ))
}

#[cfg(test)]
mod tests;
