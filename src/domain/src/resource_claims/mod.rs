//! Devices from resource claims (Kubernetes' dynamic resource allocation, DRA): the requests of a VMI, and the metadata
//! that drivers publish in the pod.

mod claimed_requests;
mod device_metadata;

pub use claimed_requests::{ClaimedRequest, claimed_requests};
pub use device_metadata::{MetadataError, device};
