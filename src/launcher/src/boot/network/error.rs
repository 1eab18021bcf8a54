use std::io;
use std::path::PathBuf;

use domain::pod_network_and_dhcp::{PodNetworkError, VifCacheError};

use crate::blocking::NoAnswer;

/// The guest's network could not be prepared.
#[derive(Debug, thiserror::Error)]
pub enum NetworkError {
    /// The VMI asks for what cannot be had.
    #[error(transparent)]
    Asked(#[from] PodNetworkError),
    /// The kernel cannot be asked about links at all.
    #[error("asking the kernel for the pod's links: {0}")]
    Netlink(io::Error),
    /// The kernel's answer about a link.
    #[error("asking the kernel about the link {link}: {reason}")]
    Link {
        /// The link.
        link: String,
        /// What it says.
        reason: String,
    },
    /// virt-handler makes links before it asks for the VM.
    #[error(
        "interface {interface}: the pod has no link {links}; virt-handler prepares it before it asks for the VM, \
         so its log or the pod's network (CNI) should tell why not"
    )]
    NoLink {
        /// The interface.
        interface: String,
        /// Names that the link may have.
        links: String,
    },
    /// The file with the pod's address cannot be read.
    #[error(
        "interface {interface}: reading {path}, where virt-handler leaves the pod's address for the guest: {source}"
    )]
    Unreadable {
        /// The interface.
        interface: String,
        /// The file.
        path: PathBuf,
        /// Why it cannot.
        source: io::Error,
    },
    /// The file with the pod's address says what cannot be had.
    #[error(
        "interface {interface}: {path}, where virt-handler leaves the pod's address for the guest: {source}; a new \
         pod (restart the VM) gets a new file"
    )]
    Cache {
        /// The interface.
        interface: String,
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: VifCacheError,
    },
    /// The pod's name or its name service is not known.
    #[error("reading {path}, a source of DHCP options: {source}")]
    Pod {
        /// The file.
        path: PathBuf,
        /// Why it cannot be read.
        source: io::Error,
    },
    /// No DHCP for the guest.
    #[error(
        "interface {interface}: listening for DHCP on UDP port {port} of {bridge}: {source} (it takes \
         CAP_NET_BIND_SERVICE, and Linux 5.7 where the launcher is not root)"
    )]
    Listen {
        /// The interface.
        interface: String,
        /// The port.
        port: u16,
        /// The bridge.
        bridge: String,
        /// Why not.
        source: io::Error,
    },
    /// A file system or the kernel hangs.
    #[error(transparent)]
    NoAnswer(#[from] NoAnswer),
}
