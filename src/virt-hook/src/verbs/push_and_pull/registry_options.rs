//! The options of `push` and `pull` for the connection to a registry.

use std::io::Read;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, anyhow};
use clap::Args;
use oci_registry::{Client, Credentials, Limits, Options, Reference};

use super::limits::MAX_BLOB;
use super::registry_failure;
use crate::inputs::input_file;
use crate::verb_failure::Failure;

/// Maximum size of a file of certificates in bytes.
const MAX_CERTIFICATES: usize = 4 << 20;
/// Maximum size of a password in bytes.
const MAX_PASSWORD: u64 = 64 << 10;
/// The files in which distributions have their certificates.
const CERTIFICATE_FILES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// How a registry is reached.
#[derive(Debug, Args)]
pub(super) struct RegistryOptions {
    /// User name; default: the credentials of `podman login` or `docker login`
    #[arg(long, value_name = "NAME", requires = "password_stdin")]
    username: Option<String>,
    /// Read the password of --username from standard input
    #[arg(long, requires = "username")]
    password_stdin: bool,
    /// CA certificates (PEM) to trust instead of the system's
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Use HTTP without TLS (insecure)
    #[arg(long)]
    plain_http: bool,
    /// Host of a token service that may get the password, if it is not the registry's. May be repeated
    #[arg(long, value_name = "HOST")]
    token_host: Vec<String>,
    /// Timeout of the whole operation
    #[arg(long, value_name = "SECONDS", default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..=3600))]
    timeout: u64,
}

impl RegistryOptions {
    /// A client for the repository of the reference.
    pub(super) fn client(&self, reference: &Reference, can_push: bool) -> Result<Client, Failure> {
        let options = Options {
            limits: Limits {
                deadline: Duration::from_secs(self.timeout),
                blob: MAX_BLOB,
            },
            credentials: self.credentials(reference)?,
            roots: self.root_certificates()?,
            plain_http: self.plain_http,
            token_hosts: self.token_host.clone(),
        };
        Client::new(reference, options, can_push).map_err(registry_failure)
    }

    fn credentials(&self, reference: &Reference) -> Result<Option<Credentials>, Failure> {
        let Some(username) = &self.username else {
            return Credentials::stored(reference).map_err(registry_failure);
        };
        let mut password = String::new();
        let mut input = std::io::stdin().lock().take(MAX_PASSWORD);
        let read = input.read_to_string(&mut password);
        read.context("the password on standard input")
            .map_err(Failure::Usage)?;
        Ok(Some(Credentials {
            username: username.clone(),
            password: password.trim_end_matches(['\n', '\r']).to_owned(),
        }))
    }

    fn root_certificates(&self) -> Result<Vec<u8>, Failure> {
        if let Some(path) = &self.ca {
            return input_file::read(path, MAX_CERTIFICATES);
        }
        if self.plain_http {
            return Ok(Vec::new());
        }
        let from_environment = std::env::var_os("SSL_CERT_FILE").map(PathBuf::from);
        let of_distribution = || {
            CERTIFICATE_FILES
                .iter()
                .map(PathBuf::from)
                .find(|path| path.is_file())
        };
        match from_environment.or_else(of_distribution) {
            Some(path) => input_file::read(&path, MAX_CERTIFICATES),
            None => Ok(Vec::new()),
        }
    }
}

/// Parses the reference of an image.
pub(super) fn reference(text: &str) -> Result<Reference, Failure> {
    text.parse()
        .map_err(|error| Failure::usage(anyhow!("{error}")))
}
