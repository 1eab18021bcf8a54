//! Errors of preparing the guest's network.

use std::io;
use std::path::PathBuf;

use domain::pod_network_and_dhcp::{PodNetworkError, VifCacheError};

use crate::blocking::NoAnswer;

/// The guest's network could not be prepared.
#[derive(Debug, thiserror::Error)]
pub enum NetworkError {
    /// The VMI's network configuration is not supported.
    #[error(transparent)]
    Unsupported(#[from] PodNetworkError),
    /// The netlink socket could not be opened.
    #[error("asking the kernel for the pod's links: {0}")]
    Netlink(io::Error),
    /// The kernel returned an error about a link.
    #[error("asking the kernel about the link {link}: {reason}")]
    Link {
        /// The link.
        link: String,
        /// The kernel's error.
        reason: String,
    },
    /// A link that virt-handler makes does not exist.
    #[error(
        "interface {interface}: the pod has no link {links}; virt-handler prepares it before it asks for the VM, \
         so its log or the pod's network (CNI) should tell why not"
    )]
    NoLink {
        /// The interface.
        interface: String,
        /// The possible names of the link.
        links: String,
    },
    /// The file with the pod's address could not be read.
    #[error(
        "interface {interface}: reading {path}, where virt-handler leaves the pod's address for the guest: {source}"
    )]
    ReadVifCache {
        /// The interface.
        interface: String,
        /// The file.
        path: PathBuf,
        /// The error of the file system.
        source: io::Error,
    },
    /// The file with the pod's address is invalid.
    #[error(
        "interface {interface}: {path}, where virt-handler leaves the pod's address for the guest: {source}; a new \
         pod (restart the VM) gets a new file"
    )]
    InvalidVifCache {
        /// The interface.
        interface: String,
        /// The file.
        path: PathBuf,
        /// What is invalid.
        source: VifCacheError,
    },
    /// A file with the pod's host name or DNS configuration could not be read.
    #[error("reading {path}, a source of DHCP options: {source}")]
    ReadPodFile {
        /// The file.
        path: PathBuf,
        /// The error of the file system.
        source: io::Error,
    },
    /// A file with the pod's host name or DNS configuration is too large.
    #[error(
        "{path}, a source of DHCP options, has more than {max_bytes} bytes; shorten {settings}"
    )]
    PodFileTooLarge {
        /// The file.
        path: PathBuf,
        /// Maximum size in bytes.
        max_bytes: usize,
        /// The settings from which the file is made.
        settings: &'static str,
    },
    /// Listening for DHCP requests failed.
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
        /// The error of the socket.
        source: io::Error,
    },
    /// A call to the file system or the kernel timed out.
    #[error(transparent)]
    NoAnswer(#[from] NoAnswer),
}
