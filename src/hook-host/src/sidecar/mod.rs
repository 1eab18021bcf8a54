//! The gRPC client for hook sidecars.
