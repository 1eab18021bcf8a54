//! Why an interface cannot be connected.

/// Why an interface cannot be connected as the VMI asks.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum PodNetworkError {
    /// The interface's network is not one of the pod's.
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
        /// The values that are supported.
        allowed: &'static str,
    },
    /// Neither the VMI nor the pod gives the guest's interface an Ethernet address.
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
