//! Options of a registry client: limits, credentials, TLS roots, plain HTTP, hosts of token services.

use std::time::Duration;

use crate::Credentials;

/// The deadline of a client and the maximum size of a blob.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// How long all requests of a client together may take.
    pub deadline: Duration,
    /// The maximum size of a blob in bytes.
    pub blob: u64,
}

/// Options of a registry client.
#[derive(Debug, Clone)]
pub struct Options {
    /// Deadline and blob size.
    pub limits: Limits,
    /// Credentials; without them requests are anonymous.
    pub credentials: Option<Credentials>,
    /// The trusted root certificates in PEM.
    pub roots: Vec<u8>,
    /// Uses plain HTTP, with which everyone on the network path can read and change the traffic.
    pub plain_http: bool,
    /// Hosts of token services that may receive the credentials, besides the registry's own host.
    pub token_hosts: Vec<String>,
}
