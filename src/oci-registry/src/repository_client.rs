//! A client of one repository: pulls manifests and blobs, with credentials.

use http::header::{ACCEPT, WWW_AUTHENTICATE};
use http::{HeaderName, Method, Response, StatusCode};
use image_layout::{Digest, sha256};
use serde_json::Value as Json;
use ureq::Body;

use crate::auth_challenge::Challenge;
use crate::http_requests::{Query, Redirects, Transport};
use crate::token_service::TokenRequest;
use crate::{MAX_MANIFEST, Options, Reference, RegistryError};

/// What manifests are asked for.
const MANIFESTS: &str = "application/vnd.oci.image.index.v1+json, \
    application/vnd.oci.image.manifest.v1+json, \
    application/vnd.docker.distribution.manifest.list.v2+json, \
    application/vnd.docker.distribution.manifest.v2+json";

/// A manifest, configuration or index as it was sent.
#[derive(Debug, Clone)]
pub struct Manifest {
    /// The bytes, which have the digest.
    pub bytes: Vec<u8>,
    /// The digest of the bytes.
    pub digest: Digest,
    /// The bytes as JSON.
    pub json: Json,
}

/// A repository of a registry.
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
    /// A client for the repository of a reference. The deadline begins now.
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

    /// The manifest of a reference, and its digest if it pins one.
    pub fn manifest(&mut self, reference: &Reference) -> Result<Manifest, RegistryError> {
        self.manifest_of(reference.manifest_name(), reference.digest())
    }

    /// The manifest with a digest.
    pub fn manifest_by_digest(&mut self, digest: &Digest) -> Result<Manifest, RegistryError> {
        self.manifest_of(digest.as_str(), Some(digest))
    }

    fn manifest_of(
        &mut self,
        name: &str,
        pinned: Option<&Digest>,
    ) -> Result<Manifest, RegistryError> {
        let url = self.url(&format!("manifests/{name}"));
        let answer = self.get(&url, &[(ACCEPT, MANIFESTS)])?;
        let bytes = self.transport.body(&url, answer, MAX_MANIFEST)?;
        let digest = self.checked(&url, &bytes, pinned)?;
        let json = serde_json::from_slice(&bytes).map_err(|error| {
            RegistryError::malformed(&url, format!("the manifest is not JSON: {error}"))
        })?;
        Ok(Manifest {
            bytes,
            digest,
            json,
        })
    }

    /// A blob, which must have this size.
    pub fn blob(&mut self, digest: &Digest, size: u64) -> Result<Vec<u8>, RegistryError> {
        let url = self.url(&format!("blobs/{digest}"));
        let limit = self.options.limits.blob;
        if size > limit {
            return Err(RegistryError::TooLarge { url, limit });
        }
        let answer = self.get(&url, &[])?;
        let bytes = self.transport.body(&url, answer, size)?;
        self.checked(&url, &bytes, Some(digest))?;
        Ok(bytes)
    }

    fn checked(
        &self,
        url: &str,
        bytes: &[u8],
        pinned: Option<&Digest>,
    ) -> Result<Digest, RegistryError> {
        let found = sha256(bytes);
        match pinned {
            Some(expected) if *expected != found => Err(RegistryError::OtherDigest {
                url: url.to_owned(),
                expected: expected.clone(),
                found,
            }),
            _ => Ok(found),
        }
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
        let query = Query {
            headers,
            ..Query::new(Method::GET, url)
        };
        self.expect(StatusCode::OK, &query)
    }

    pub(crate) fn expect(
        &mut self,
        status: StatusCode,
        query: &Query<'_>,
    ) -> Result<Response<Body>, RegistryError> {
        let answer = self.ask(query)?;
        match answer.status() == status {
            true => Ok(answer),
            false => Err(self.refusal(query.url, answer)),
        }
    }

    /// Sends a request; when the registry wants to know who asks, says so and sends it again.
    pub(crate) fn ask(&mut self, query: &Query<'_>) -> Result<Response<Body>, RegistryError> {
        let send = |authorization: Option<&str>| {
            self.transport.send(query, authorization, Redirects::Follow)
        };
        let answer = send(self.authorization.as_deref())?;
        if answer.status() != StatusCode::UNAUTHORIZED {
            return Ok(answer);
        }
        let challenges = answer.headers().get_all(WWW_AUTHENTICATE).into_iter();
        let mut challenges = challenges.filter_map(|value| Challenge::parse(value.to_str().ok()?));
        let authorization = match (challenges.next(), &self.options.credentials) {
            (Some(Challenge::Basic), Some(credentials)) => credentials.basic(),
            (Some(Challenge::Bearer(challenge)), credentials) => {
                let request = TokenRequest {
                    origin: &self.origin(),
                    host: &self.host,
                    repository: &self.repository,
                    can_push: self.can_push,
                    plain_http: self.options.plain_http,
                    credentials: credentials.as_ref(),
                    token_hosts: &self.options.token_hosts,
                };
                format!("Bearer {}", request.send(&challenge, &self.transport)?)
            }
            (Some(Challenge::Basic), None) | (None, _) => return Ok(answer),
        };
        let answer = send(Some(&authorization))?;
        self.authorization = Some(authorization);
        Ok(answer)
    }

    pub(crate) fn refusal(&self, url: &str, answer: Response<Body>) -> RegistryError {
        self.transport.refusal(url, answer)
    }
}
