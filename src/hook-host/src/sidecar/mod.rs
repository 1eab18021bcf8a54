//! KubeVirt's hook sidecars: containers that the launcher calls with gRPC over a unix socket.
//!
//! Info of a sidecar is called once ([`query_info`]). Every call has a new connection, as in KubeVirt,
//! because sidecars may restart between calls.

mod dial_unix_socket;
mod protocol_version;
mod query_info;
mod sidecar_call;
mod sidecar_hook_body;

pub(crate) use dial_unix_socket::channel;
pub(crate) use query_info::{InfoError, query_info};
pub(crate) use sidecar_call::{Sidecar, status_text};
