//! Listening sockets that a client cannot use up: their connections, open calls, memory and end are limited.
//!
//! [`ByteListener`] serves each connection in a task of its own, [`GrpcServer`] serves gRPC. Both keep a table of open
//! connections. When there are too many, or their calls hold too much memory, the connection that was idle longest is
//! closed, so that no number of idle clients keeps others out. [`limits`] has all numbers. [`GrpcServer`] accepts requests with
//! any `:authority`.

mod byte_listener;
mod call_memory;
mod connection_table;
mod grpc_server;
mod guarded_stream;
mod http2_authority_filter;
pub mod limits;

pub use byte_listener::ByteListener;
pub use call_memory::CallMemoryLayer;
pub use connection_table::{ConnectionHandle, RunningGuard};
pub use grpc_server::{Accept, CountingRouter, CountingServer, GrpcServer, http2_server};
pub use limits::GrpcLimits;
