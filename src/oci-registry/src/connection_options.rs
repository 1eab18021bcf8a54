//! Options of a registry client: limits, credentials, TLS roots, plain HTTP, hosts of tokens.

use std::time::Duration;

use crate::Credentials;

/// How long everything together may take, and how large a blob may be.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// All requests of a client together.
    pub deadline: Duration,
    /// The largest blob in bytes.
    pub blob: u64,
}

/// How a registry is reached.
#[derive(Debug, Clone)]
pub struct Options {
    /// Deadline and size.
    pub limits: Limits,
    /// Credentials; without them requests are anonymous.
    pub credentials: Option<Credentials>,
    /// Certificates (PEM) that sign the registry's.
    pub roots: Vec<u8>,
    /// Plain HTTP: everyone on the network path can read and change the traffic.
    pub plain_http: bool,
    /// Hosts of token services that are given the credentials, besides the registry's own host.
    pub token_hosts: Vec<String>,
}
