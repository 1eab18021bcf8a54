//! The data of a backup in pull mode: QEMU serves it over NBD on a socket, [`NbdService`] over gRPC.
//!
//! ```text
//!   export server ─ gRPC Map, Read ─▶ service ─▶ extents (pure)
//!                                        └─▶ client ─ NBD ─▶ QEMU
//! ```

mod client;
mod error;
mod extents;
mod handshake;
mod reply;
mod service;

pub(crate) use service::NbdService;
