//! Serves the data of a backup in pull mode: [`NbdService`] translates between gRPC and QEMU's NBD server.
//!
//! ```text
//!   export server ─ gRPC Map, Read ─▶ service ─▶ extent batches (pure)
//!                                        └─▶ client ─ NBD ─▶ QEMU
//! ```

mod extent_batches;
mod nbd_grpc_service;
mod qemu_nbd_client;

pub(crate) use nbd_grpc_service::NbdService;
