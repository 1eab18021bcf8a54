//! A client of one repository: authenticates, and pulls manifests and blobs.

use http::header::{ACCEPT, CONTENT_TYPE, LOCATION, WWW_AUTHENTICATE};
use http::{HeaderName, Method, Response, StatusCode};
use image_layout::{Digest, sha256};
use serde_json::Value as Json;
use ureq::Body;

use crate::http_transport::{HttpRequest, Redirects, Transport};
use crate::percent_encoding::percent_encode;
use crate::token_service::{Challenge, TokenRequest};
use crate::{MAX_MANIFEST, Options, Reference, RegistryError};

/// The value of `Accept` in a request for a manifest.
const MANIFEST_MEDIA_TYPES: &str = "application/vnd.oci.image.index.v1+json, \
    application/vnd.oci.image.manifest.v1+json, \
    application/vnd.docker.distribution.manifest.list.v2+json, \
    application/vnd.docker.distribution.manifest.v2+json";

/// A manifest or index.
#[derive(Debug, Clone)]
pub struct Manifest {
    /// The bytes as the registry sent them.
    pub bytes: Vec<u8>,
    /// The digest of the bytes.
    pub digest: Digest,
    /// The bytes as JSON.
    pub json: Json,
}

/// A client of one repository.
#[derive(Debug)]
pub struct Client {
    transport: Transport,
    options: Options,
    host: String,
    repository: String,
    /// The value of `Authorization` that the registry accepted.
    authorization: Option<String>,
    can_push: bool,
}

impl Client {
    /// Creates a client for the repository of a reference. The time limit of all its requests starts now.
    pub fn new(
        reference: &Reference,
        options: Options,
        can_push: bool,
    ) -> Result<Self, RegistryError> {
        Ok(Self {
            transport: Transport::new(&options)?,
            host: reference.server().to_owned(),
            repository: reference.server_repository(),
            options,
            authorization: None,
            can_push,
        })
    }

    /// Pulls the manifest of a reference, and checks its digest if the reference pins one.
    pub fn manifest(&mut self, reference: &Reference) -> Result<Manifest, RegistryError> {
        self.pull_manifest(reference.manifest_name(), reference.digest())
    }

    /// Pulls the manifest with this digest.
    pub fn manifest_by_digest(&mut self, digest: &Digest) -> Result<Manifest, RegistryError> {
        self.pull_manifest(digest.as_str(), Some(digest))
    }

    fn pull_manifest(
        &mut self,
        name: &str,
        pinned: Option<&Digest>,
    ) -> Result<Manifest, RegistryError> {
        let url = self.url(&format!("manifests/{name}"));
        let answer = self.get(&url, &[(ACCEPT, MANIFEST_MEDIA_TYPES)])?;
        let bytes = self.transport.read_body(&url, answer, MAX_MANIFEST)?;
        let digest = check_digest(&url, &bytes, pinned)?;
        let json = serde_json::from_slice(&bytes).map_err(|error| {
            RegistryError::malformed(&url, format!("the manifest is not JSON: {error}"))
        })?;
        Ok(Manifest {
            bytes,
            digest,
            json,
        })
    }

    /// Pulls a blob. `size` is its size in the manifest, which is the limit of the answer.
    pub fn blob(&mut self, digest: &Digest, size: u64) -> Result<Vec<u8>, RegistryError> {
        let url = self.url(&format!("blobs/{digest}"));
        let limit = self.options.limits.blob;
        if size > limit {
            return Err(RegistryError::TooLarge { url, limit });
        }
        let answer = self.get(&url, &[])?;
        let bytes = self.transport.read_body(&url, answer, size)?;
        check_digest(&url, &bytes, Some(digest))?;
        Ok(bytes)
    }

    pub(crate) fn origin(&self) -> String {
        let scheme = if self.options.plain_http {
            "http"
        } else {
            "https"
        };
        format!("{scheme}://{}", self.host)
    }

    pub(crate) fn url(&self, rest: &str) -> String {
        format!("{}/v2/{}/{rest}", self.origin(), self.repository)
    }

    fn get(
        &mut self,
        url: &str,
        headers: &[(HeaderName, &str)],
    ) -> Result<Response<Body>, RegistryError> {
        let request = HttpRequest {
            headers,
            ..HttpRequest::new(Method::GET, url)
        };
        self.send_expecting(StatusCode::OK, &request)
    }

    /// Sends a request that has to be answered with this status.
    pub(crate) fn send_expecting(
        &mut self,
        status: StatusCode,
        request: &HttpRequest<'_>,
    ) -> Result<Response<Body>, RegistryError> {
        let answer = self.send(request)?;
        match answer.status() == status {
            true => Ok(answer),
            false => Err(self.status_error(request.url, answer)),
        }
    }

    /// Sends a request. If the registry asks for authentication, sends the request again with `Authorization`.
    pub(crate) fn send(
        &mut self,
        request: &HttpRequest<'_>,
    ) -> Result<Response<Body>, RegistryError> {
        let send_with = |authorization: Option<&str>| {
            self.transport
                .send(request, authorization, Redirects::Follow)
        };
        let answer = send_with(self.authorization.as_deref())?;
        if answer.status() != StatusCode::UNAUTHORIZED {
            return Ok(answer);
        }
        let challenges = answer.headers().get_all(WWW_AUTHENTICATE).into_iter();
        let mut challenges = challenges.filter_map(|value| Challenge::parse(value.to_str().ok()?));
        let authorization = match (challenges.next(), &self.options.credentials) {
            (Some(Challenge::Basic), Some(credentials)) => credentials.basic_authorization(),
            (Some(Challenge::Bearer(challenge)), credentials) => {
                let token_request = TokenRequest {
                    origin: &self.origin(),
                    host: &self.host,
                    repository: &self.repository,
                    can_push: self.can_push,
                    plain_http: self.options.plain_http,
                    credentials: credentials.as_ref(),
                    token_hosts: &self.options.token_hosts,
                };
                format!(
                    "Bearer {}",
                    token_request.send(&challenge, &self.transport)?
                )
            }
            (Some(Challenge::Basic), None) | (None, _) => return Ok(answer),
        };
        let answer = send_with(Some(&authorization))?;
        self.authorization = Some(authorization);
        Ok(answer)
    }

    pub(crate) fn status_error(&self, url: &str, answer: Response<Body>) -> RegistryError {
        self.transport.status_error(url, answer)
    }
}

/// The digest of the content, which has to be `expected` if that is given.
fn check_digest(
    url: &str,
    content: &[u8],
    expected: Option<&Digest>,
) -> Result<Digest, RegistryError> {
    let found = sha256(content);
    match expected {
        Some(expected) if *expected != found => Err(RegistryError::DigestMismatch {
            url: url.to_owned(),
            expected: expected.clone(),
            found,
        }),
        _ => Ok(found),
    }
}

impl Client {
    /// Uploads a blob, unless the registry has it. Returns whether it was uploaded.
    pub fn push_blob(&mut self, content: &[u8]) -> Result<bool, RegistryError> {
        let digest = sha256(content);
        let url = self.url(&format!("blobs/{digest}"));
        let answer = self.send(&HttpRequest::new(Method::HEAD, &url))?;
        match answer.status() {
            StatusCode::OK => return Ok(false),
            StatusCode::NOT_FOUND => {}
            _ => return Err(self.status_error(&url, answer)),
        }
        let url = self.url("blobs/uploads/");
        let answer =
            self.send_expecting(StatusCode::ACCEPTED, &HttpRequest::new(Method::POST, &url))?;
        let location = answer
            .headers()
            .get(LOCATION)
            .and_then(|value| value.to_str().ok());
        let location = location.and_then(|location| self.upload_url(location));
        let location = location.ok_or_else(|| {
            RegistryError::malformed(&url, "it names no place of its own for the upload")
        })?;
        let separator = if location.contains('?') { '&' } else { '?' };
        let url = format!(
            "{location}{separator}digest={}",
            percent_encode(digest.as_str())
        );
        let upload = HttpRequest {
            method: Method::PUT,
            url: &url,
            headers: &[(CONTENT_TYPE, "application/octet-stream")],
            body: content,
        };
        self.send_expecting(StatusCode::CREATED, &upload)?;
        Ok(true)
    }

    /// Uploads a manifest under a name: a tag, or its digest.
    pub fn push_manifest(
        &mut self,
        name: &str,
        media_type: &str,
        content: &[u8],
    ) -> Result<Digest, RegistryError> {
        let url = self.url(&format!("manifests/{name}"));
        let upload = HttpRequest {
            method: Method::PUT,
            url: &url,
            headers: &[(CONTENT_TYPE, media_type)],
            body: content,
        };
        self.send_expecting(StatusCode::CREATED, &upload)?;
        Ok(sha256(content))
    }

    /// The URL of an upload; `None` if it is on another host, since the credentials are sent there.
    fn upload_url(&self, location: &str) -> Option<String> {
        let origin = self.origin();
        if location.starts_with('/') && !location.starts_with("//") {
            return Some(format!("{origin}{location}"));
        }
        let rest = location.strip_prefix(&origin)?;
        rest.starts_with('/').then(|| location.to_owned())
    }
}
