//! Errors of editing the domain's XML for a migration.

use crate::convert::ConvertError;
use crate::domain_spec_from_xml::ParseError;

/// Why the domain's XML cannot be edited for the target.
#[derive(Debug, thiserror::Error)]
pub enum MigrationXmlError {
    /// libvirt's XML is invalid.
    #[error("libvirt's migratable XML of the domain: {0}")]
    Domain(#[from] ParseError),
    /// The target node's topology, which virt-controller copies into the VMI, is invalid.
    #[error(
        "status.migrationState.targetNodeTopology is not the JSON of a topology ({0}); the VM's dedicated processors \
         cannot be placed on the target"
    )]
    Topology(String),
    /// The target has too few CPUs, or its CPUs do not fit the VM.
    #[error("the VM's dedicated processors cannot be placed on the target: {0}")]
    Placement(#[from] ConvertError),
    /// The pod's vGPU cannot be used.
    #[error("{0}")]
    Device(ConvertError),
    /// The network of a numbered tap device is unknown.
    #[error(
        "the interface {alias:?} of tap device {tap} has none of the VMI's networks, by which the tap device is named here"
    )]
    Tap {
        /// The tap device on the source.
        tap: String,
        /// The interface's alias.
        alias: String,
    },
    /// The domain has other host devices than one vGPU, or this pod has no vGPU.
    #[error("a VM can migrate with exactly one vGPU and no other host device; this one {0}")]
    Vgpu(&'static str),
    /// The size of a migrated volume's disk is unknown.
    #[error("the size of the disk of volume {0} is unknown, which its copy on the target needs")]
    Size(String),
    /// The disk lacks an element that its copy needs.
    #[error("the disk of volume {volume} has no {what}, so that it cannot be migrated")]
    Disk {
        /// The volume.
        volume: String,
        /// The missing element.
        what: &'static str,
    },
}
