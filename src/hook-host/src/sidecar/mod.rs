//! Hook sidecars: KubeVirt's own containers, spoken to in gRPC over a unix socket.
//!
//! A sidecar is queried once for its Info ([`query_info`]) and gets a new connection for every call, as
//! KubeVirt does it: sidecars may restart in between.

mod call;
mod dial;
mod hook_body;
mod info;
mod version;

pub(crate) use call::{Sidecar, status_text};
pub(crate) use dial::channel;
pub(crate) use info::{InfoError, query_info};
