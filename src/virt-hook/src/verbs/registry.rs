//! `virt-hook push` and `virt-hook pull`: images of modules in OCI registries.

mod pull;

use std::collections::BTreeSet;
use std::io::Read;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, anyhow};
use clap::Args;
use image_layout::{Digest, ImageError, InvalidDigest, StoredLayout, sha256};
use oci_registry::{
    Client, Credentials, Limits, MAX_MANIFEST, Manifest, Options, Reference, RegistryError,
};
use serde::Serialize;
use serde_json::Value as Json;
pub(crate) use {Arguments as PushArguments, HELP as PUSH_HELP, run as push};

use crate::inputs::input_file;
use crate::output::{Report, Style};
use crate::verb_failure::Failure;
pub(crate) use pull::{Arguments as PullArguments, HELP as PULL_HELP, run as pull};

/// The media types of indexes, which have an image for each platform.
const INDEX_MEDIA_TYPES: [&str; 2] = [
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
];

/// The failure for an error of the registry or of the connection to it.
fn registry_failure(error: RegistryError) -> Failure {
    match error.is_local_or_network_error() {
        true => Failure::internal(error),
        false => Failure::refused(error),
    }
}

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
struct RegistryOptions {
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
    fn client(&self, reference: &Reference, can_push: bool) -> Result<Client, Failure> {
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
fn reference(text: &str) -> Result<Reference, Failure> {
    text.parse()
        .map_err(|error| Failure::usage(anyhow!("{error}")))
}

pub(crate) const HELP: &str = "\
Examples:
  virt-hook image smbios.wasm --out layout
  virt-hook push layout registry.example/hooks:1

Exit codes:
  0  the registry has the image
  1  the registry refused the image, or its answer is invalid; standard error says why
  2  invalid command line, or an unusable layout
  3  error of this machine, or the registry is unreachable or did not answer in time";
/// The depth of indexes: an index has images and no further indexes.
const MAX_DEPTH: usize = 1;

/// Arguments of `virt-hook push`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The layout that `virt-hook image` wrote
    layout: PathBuf,
    /// The image's name, with the registry: registry.example/hooks:1
    reference: String,
    #[command(flatten)]
    connection: RegistryOptions,
}

/// An image that was pushed.
#[derive(Debug, Serialize)]
pub(crate) struct PushReport {
    /// The reference with the digest.
    reference: String,
    digest: Digest,
    /// Number of blobs that the registry did not have.
    uploaded: usize,
    /// Number of blobs that the registry had already.
    present: usize,
}

/// Uploads the blobs that the registry does not have, then the manifests.
pub(crate) fn run(arguments: &Arguments) -> Result<PushReport, Failure> {
    let reference = reference(&arguments.reference)?;
    let layout = StoredLayout::open(&arguments.layout).map_err(unusable)?;
    let image = layout.image();
    let bytes = layout.blob(image, MAX_MANIFEST).map_err(unusable)?;
    let digest = sha256(&bytes);
    if reference.digest().is_some_and(|pinned| *pinned != digest) {
        return Err(Failure::usage(anyhow!(
            "{reference}: the layout's image has the digest {digest}"
        )));
    }
    let mut push = Push {
        layout: &layout,
        client: arguments.connection.client(&reference, true)?,
        present_digests: BTreeSet::new(),
        uploaded: 0,
        present: 0,
    };
    let name = reference.tag().unwrap_or(digest.as_str());
    push.image(image, &bytes, name, 0)?;
    Ok(PushReport {
        reference: reference.pinned(&digest),
        uploaded: push.uploaded,
        present: push.present,
        digest,
    })
}

struct Push<'a> {
    layout: &'a StoredLayout,
    client: Client,
    /// The digests of the blobs that the registry has now: images of an index share their layers.
    present_digests: BTreeSet<String>,
    uploaded: usize,
    present: usize,
}

impl Push<'_> {
    /// Pushes an image or index under a name: a tag or digest.
    fn image(
        &mut self,
        descriptor: &Json,
        bytes: &[u8],
        name: &str,
        depth: usize,
    ) -> Result<(), Failure> {
        let manifest: Json = serde_json::from_slice(bytes).map_err(Failure::usage)?;
        let media_type = descriptor["mediaType"].as_str().unwrap_or_default();
        let list = |name: &str| manifest[name].as_array().cloned().unwrap_or_default();
        if INDEX_MEDIA_TYPES.contains(&media_type) {
            if depth == MAX_DEPTH {
                return Err(Failure::usage(anyhow!(
                    "an index of indexes cannot be pushed"
                )));
            }
            for image in list("manifests") {
                let digest = image["digest"].as_str().unwrap_or_default();
                let bytes = self.layout.blob(&image, MAX_MANIFEST).map_err(unusable)?;
                self.image(&image, &bytes, digest, depth + 1)?;
            }
        } else {
            for blob in [manifest["config"].clone()]
                .into_iter()
                .chain(list("layers"))
            {
                self.blob(&blob)?;
            }
        }
        let pushed = self.client.push_manifest(name, media_type, bytes);
        pushed.map(drop).map_err(registry_failure)
    }

    fn blob(&mut self, descriptor: &Json) -> Result<(), Failure> {
        let digest = descriptor["digest"].as_str().unwrap_or_default();
        if !self.present_digests.insert(digest.to_owned()) {
            return Ok(());
        }
        let content = self.layout.blob(descriptor, MAX_BLOB).map_err(unusable)?;
        match self.client.push_blob(&content).map_err(registry_failure)? {
            true => self.uploaded += 1,
            false => self.present += 1,
        }
        Ok(())
    }
}

fn unusable(error: ImageError) -> Failure {
    Failure::usage(error)
}

impl Report for PushReport {
    fn text(&self, _: Style) -> String {
        let (uploaded, present) = (self.uploaded, self.present);
        format!(
            "{} ({uploaded} blobs uploaded, {present} there already)",
            self.reference
        )
    }
}

/// The descriptors of the layers.
fn layers(manifest: &Manifest) -> &[Json] {
    manifest.json["layers"]
        .as_array()
        .map_or(&[], Vec::as_slice)
}

/// Pulls a blob of at most `limit` bytes.
fn blob(client: &mut Client, descriptor: &Json, limit: u64) -> Result<Vec<u8>, Failure> {
    let size = descriptor["size"].as_u64().unwrap_or_default();
    let digest = parse_digest(&descriptor["digest"])?;
    if size > limit {
        return Err(Failure::refused(anyhow!(
            "{digest}: it has {size} bytes, and the limit is {limit} bytes"
        )));
    }
    client.blob(&digest, size).map_err(registry_failure)
}

/// Parses a digest in the manifest.
fn parse_digest(value: &Json) -> Result<Digest, Failure> {
    let digest = value.as_str().unwrap_or_default().parse();
    digest.map_err(|reason: InvalidDigest| {
        Failure::refused(anyhow!("the manifest is wrong: {reason}"))
    })
}

/// Maximum size of a blob in bytes: a layer with several modules, each of at most 32 MiB.
const MAX_BLOB: u64 = 256 << 20;
/// Maximum size of hook.yaml, and of a signature, in bytes.
const MAX_TEXT: u64 = 256 << 10;
/// Maximum number of bytes of a name or media type that an error shows.
const MAX_PRINTED: usize = 200;
