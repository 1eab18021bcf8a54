use crate::convert::ConvertError;
use crate::parse_domain_xml::ParseError;

/// The domain cannot be described to the target.
#[derive(Debug, thiserror::Error)]
pub enum MigrationXmlError {
    /// libvirt's XML is not understood.
    #[error("libvirt's migratable XML of the domain: {0}")]
    Domain(#[from] ParseError),
    /// The target node's topology, which virt-controller copies into the VMI.
    #[error(
        "status.migrationState.targetNodeTopology is not the JSON of a topology ({0}); the VM's dedicated processors \
         cannot be placed on the target"
    )]
    Topology(String),
    /// The processors do not fit.
    #[error("the VM's dedicated processors cannot be placed on the target: {0}")]
    Placement(#[from] ConvertError),
    /// The pod's vGPU cannot be used.
    #[error("{0}")]
    Device(ConvertError),
    /// A numbered tap device whose network is unknown.
    #[error(
        "the interface {alias:?} of tap device {tap} has none of the VMI's networks, by which the tap device is named here"
    )]
    Tap {
        /// The tap device on the source.
        tap: String,
        /// The interface's alias.
        alias: String,
    },
    /// Not exactly one vGPU on both sides.
    #[error("a VM can migrate with exactly one vGPU and no other host device; this one {0}")]
    Vgpu(&'static str),
    /// A migrated volume's size is unknown.
    #[error("the size of the disk of volume {0} is unknown, which its copy on the target needs")]
    Size(String),
    /// A disk without the parts that its copy needs.
    #[error("the disk of volume {volume} has no {what}, so that it cannot be migrated")]
    Disk {
        /// The volume.
        volume: String,
        /// What is missing.
        what: &'static str,
    },
}
