//! Errors of connecting an interface to the pod's network.

/// Why an interface cannot be connected as the VMI requests.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum PodNetworkError {
    /// The pod is not connected to the interface's network.
    #[error(
        "interface {interface}: could not find the pod interface of network {interface}: it is neither the pod's \
         network nor one of Multus"
    )]
    NoPodNetwork {
        /// The interface, which has its network's name.
        interface: String,
    },
    /// A field has a value that is not supported.
    #[error("interface {interface}: {field} is {value:?}; it can be {allowed}")]
    Field {
        /// The interface.
        interface: String,
        /// Path of the field, relative to the interface or the network.
        field: &'static str,
        /// The value.
        value: String,
        /// The supported values.
        allowed: &'static str,
    },
    /// Neither the VMI nor the pod's link has an Ethernet address for the guest's interface.
    #[error(
        "interface {interface}: {link}, its link in the pod, has no Ethernet address; macAddress can say one"
    )]
    NoMac {
        /// The interface.
        interface: String,
        /// The link in the pod.
        link: String,
    },
}
