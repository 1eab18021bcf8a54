//! The XML for the target, from libvirt's migratable XML.

use std::collections::BTreeMap;

use domain_xml::Document;
use kubevirt_api::vmi::Vmi;

use super::cpu_placement::TargetProcessors;
use super::error::MigrationXmlError;
use super::{decentralized_target_paths, migrated_volume_edits};

/// What to change, beyond what the VMI's status says.
#[derive(Debug, Clone, Default)]
pub struct DestinationEdits {
    /// The pod's processors on the target, for a VM with dedicated ones; `None` if the target places them itself.
    pub processors: Option<TargetProcessors>,
    /// Whether the source names the target's files; otherwise the target does.
    pub names_files: bool,
    /// Virtual sizes in bytes of the disks of migrated volumes, by volume.
    pub disk_sizes: BTreeMap<String, u64>,
}

/// The domain as the target is to define and run it. `xml` is libvirt's migratable XML.
///
/// # Errors
/// [`MigrationXmlError`] if the XML is not understood, or a disk or the processors do not fit what the VMI says.
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
        processors.place(&mut document);
    }
    migrated_volume_edits::edit(&mut document, vmi, &edits.disk_sizes)?;
    Ok(decentralized_target_paths::replace_uid(
        document.render(),
        vmi,
    ))
}

#[cfg(test)]
mod tests;
