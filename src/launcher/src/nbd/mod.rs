//! Serves the data of a backup in pull mode: [`NbdService`] translates between gRPC and QEMU's NBD server.
//!
//! ```text
//!   export server ─ gRPC Map, Read ─▶ service ─▶ extent batches (pure)
//!                                        └─▶ client ─ NBD ─▶ QEMU
//! ```

mod error;
mod extent_batches;
mod handshake;
mod nbd_grpc_service;
mod qemu_nbd_client;
mod structured_replies;

pub(crate) use nbd_grpc_service::NbdService;
