//! Hook sidecars: KubeVirt's own containers, spoken to in gRPC over a unix socket.
//!
//! A sidecar is queried once for its Info ([`query_info`]) and gets a new connection for every call, as
//! KubeVirt does it: sidecars may restart in between.

mod dial_unix_socket;
mod hook_body;
mod protocol_version;
mod query_info;
mod sidecar_call;

pub(crate) use dial_unix_socket::channel;
pub(crate) use query_info::{InfoError, query_info};
pub(crate) use sidecar_call::{Sidecar, status_text};
