//! Hook sidecars: KubeVirt's own containers, spoken to in gRPC over a unix socket.
//!
//! A sidecar is queried once for its Info ([`query_info`]) and gets a new connection for every call, as
//! KubeVirt does it: sidecars may restart in between.

mod dial;
mod hook_body;
mod info;
mod protocol_version;
mod sidecar_call;

pub(crate) use dial::channel;
pub(crate) use info::{InfoError, query_info};
pub(crate) use sidecar_call::{Sidecar, status_text};
