//! The data of a backup in pull mode: QEMU serves it over NBD on a socket, [`NbdService`] over gRPC.
//!
//! ```text
//!   export server ─ gRPC Map, Read ─▶ service ─▶ extents (pure)
//!                                        └─▶ client ─ NBD ─▶ QEMU
//! ```

mod disk_map;
mod error;
mod handshake;
mod nbd_grpc_service;
mod qemu_nbd_client;
mod structured_replies;

pub(crate) use nbd_grpc_service::NbdService;
