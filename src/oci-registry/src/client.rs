//! Requests to a registry.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, LOCATION, WWW_AUTHENTICATE};
use http::{Method, Request, Response, StatusCode};
use serde_json::Value as Json;
use ureq::tls::{Certificate, RootCerts, TlsConfig, TlsProvider};
use ureq::{Agent, Body};

use crate::auth::{Challenge, encoded};
use crate::error::quoted;
use crate::{Credentials, Digest, MAX_MANIFEST, Reference, RegistryError, sha256};

const CONNECT: Duration = Duration::from_secs(10);
/// The largest token, error or other small answer in bytes.
const MAX_ANSWER: u64 = 64 << 10;
/// What manifests are asked for.
const MANIFESTS: &str = "application/vnd.oci.image.index.v1+json, \
    application/vnd.oci.image.manifest.v1+json, \
    application/vnd.docker.distribution.manifest.list.v2+json, \
    application/vnd.docker.distribution.manifest.v2+json";

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
    /// Who asks; nobody in particular without.
    pub credentials: Option<Credentials>,
    /// Certificates (PEM) that sign the registry's.
    pub roots: Vec<u8>,
    /// Without TLS: whoever is on the way can read and change everything.
    pub plain_http: bool,
}

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
    agent: Agent,
    options: Options,
    host: String,
    repository: String,
    end: Instant,
    /// The value of `Authorization` that the registry accepted.
    authorization: Option<String>,
    can_push: bool,
}

/// What an answer may be.
struct Expected<'a> {
    method: Method,
    url: &'a str,
    headers: &'a [(http::HeaderName, &'a str)],
    body: &'a [u8],
}

impl Client {
    /// A client for the repository of a reference. The deadline begins now.
    pub fn new(
        reference: &Reference,
        options: Options,
        can_push: bool,
    ) -> Result<Self, RegistryError> {
        let tls = TlsConfig::builder()
            .provider(TlsProvider::Rustls)
            .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .root_certs(roots(&options)?)
            .build();
        let config = Agent::config_builder()
            .tls_config(tls)
            .https_only(!options.plain_http)
            .http_status_as_error(false)
            .timeout_connect(Some(CONNECT))
            .user_agent(concat!("virt-hook/", env!("CARGO_PKG_VERSION")))
            .build();
        Ok(Self {
            agent: config.into(),
            host: reference.host().to_owned(),
            repository: reference.repository().to_owned(),
            end: Instant::now() + options.limits.deadline,
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
        let bytes = self.body(&url, answer, MAX_MANIFEST)?;
        let digest = self.checked(&url, &bytes, pinned)?;
        let json = serde_json::from_slice(&bytes).map_err(|error| {
            RegistryError::malformed(&url, format!("the manifest is no JSON: {error}"))
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
        let bytes = self.body(&url, answer, size)?;
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

    /// Uploads a blob, unless the registry has it. Returns whether it was uploaded.
    pub fn push_blob(&mut self, content: &[u8]) -> Result<bool, RegistryError> {
        let digest = sha256(content);
        let url = self.url(&format!("blobs/{digest}"));
        let answer = self.ask(Expected {
            method: Method::HEAD,
            url: &url,
            headers: &[],
            body: &[],
        })?;
        match answer.status() {
            StatusCode::OK => return Ok(false),
            StatusCode::NOT_FOUND => {}
            _ => return Err(self.refusal(&url, answer)),
        }
        let url = self.url("blobs/uploads/");
        let answer = self.expect(
            StatusCode::ACCEPTED,
            Expected {
                method: Method::POST,
                url: &url,
                headers: &[],
                body: &[],
            },
        )?;
        let location = answer
            .headers()
            .get(LOCATION)
            .and_then(|value| value.to_str().ok());
        let location = location.and_then(|location| self.upload_url(location));
        let location = location.ok_or_else(|| {
            RegistryError::malformed(&url, "it names no place of its own for the upload")
        })?;
        let separator = if location.contains('?') { '&' } else { '?' };
        let url = format!("{location}{separator}digest={}", encoded(digest.as_str()));
        self.expect(
            StatusCode::CREATED,
            Expected {
                method: Method::PUT,
                url: &url,
                headers: &[(CONTENT_TYPE, "application/octet-stream")],
                body: content,
            },
        )?;
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
        let expected = Expected {
            method: Method::PUT,
            url: &url,
            headers: &[(CONTENT_TYPE, media_type)],
            body: content,
        };
        self.expect(StatusCode::CREATED, expected)?;
        Ok(sha256(content))
    }

    fn scheme(&self) -> &'static str {
        if self.options.plain_http {
            "http"
        } else {
            "https"
        }
    }

    fn origin(&self) -> String {
        format!("{}://{}", self.scheme(), self.host)
    }

    fn url(&self, rest: &str) -> String {
        format!("{}/v2/{}/{rest}", self.origin(), self.repository)
    }

    /// The place of an upload: on the registry itself, since the credentials go there.
    fn upload_url(&self, location: &str) -> Option<String> {
        let origin = self.origin();
        if location.starts_with('/') && !location.starts_with("//") {
            return Some(format!("{origin}{location}"));
        }
        let rest = location.strip_prefix(&origin)?;
        rest.starts_with('/').then(|| location.to_owned())
    }

    fn get(
        &mut self,
        url: &str,
        headers: &[(http::HeaderName, &str)],
    ) -> Result<Response<Body>, RegistryError> {
        let expected = Expected {
            method: Method::GET,
            url,
            headers,
            body: &[],
        };
        self.expect(StatusCode::OK, expected)
    }

    fn expect(
        &mut self,
        status: StatusCode,
        expected: Expected<'_>,
    ) -> Result<Response<Body>, RegistryError> {
        let url = expected.url.to_owned();
        let answer = self.ask(expected)?;
        match answer.status() == status {
            true => Ok(answer),
            false => Err(self.refusal(&url, answer)),
        }
    }

    /// Sends a request; when the registry wants to know who asks, says so and sends it again.
    fn ask(&mut self, expected: Expected<'_>) -> Result<Response<Body>, RegistryError> {
        let answer = self.send(&expected, self.authorization.as_deref())?;
        if answer.status() != StatusCode::UNAUTHORIZED {
            return Ok(answer);
        }
        let challenges = answer.headers().get_all(WWW_AUTHENTICATE).into_iter();
        let mut challenges = challenges.filter_map(|value| Challenge::parse(value.to_str().ok()?));
        let Some(challenge) = challenges.next() else {
            return Ok(answer);
        };
        let authorization = match (challenge, &self.options.credentials) {
            (Challenge::Basic, Some(credentials)) => credentials.basic(),
            (Challenge::Basic, None) => return Ok(answer),
            (
                Challenge::Bearer {
                    realm,
                    service,
                    scope,
                },
                _,
            ) => {
                format!("Bearer {}", self.token(&realm, service, scope)?)
            }
        };
        let answer = self.send(&expected, Some(&authorization))?;
        self.authorization = Some(authorization);
        Ok(answer)
    }

    /// Asks the registry's service for a token.
    fn token(
        &self,
        realm: &str,
        service: Option<String>,
        scope: Option<String>,
    ) -> Result<String, RegistryError> {
        let is_safe = realm.starts_with("https://") || self.options.plain_http;
        if !is_safe || realm.contains(['?', '#', '@']) {
            return Err(RegistryError::malformed(
                &self.origin(),
                format!(
                    "its service for tokens, {}, is no https address",
                    quoted(realm)
                ),
            ));
        }
        let actions = if self.can_push { "pull,push" } else { "pull" };
        let scope = scope.unwrap_or_else(|| format!("repository:{}:{actions}", self.repository));
        let mut url = format!("{realm}?scope={}", encoded(&scope));
        if let Some(service) = service {
            url += &format!("&service={}", encoded(&service));
        }
        let basic = self.options.credentials.as_ref().map(Credentials::basic);
        let answer = self.send(
            &Expected {
                method: Method::GET,
                url: &url,
                headers: &[],
                body: &[],
            },
            basic.as_deref(),
        )?;
        if answer.status() != StatusCode::OK {
            return Err(self.refusal(&url, answer));
        }
        let body = self.body(&url, answer, MAX_ANSWER)?;
        let json: Json = serde_json::from_slice(&body).unwrap_or_default();
        let token = json["token"].as_str().or(json["access_token"].as_str());
        let is_token = |token: &&str| token.bytes().all(|byte| byte.is_ascii_graphic());
        let token = token.filter(|token| !token.is_empty()).filter(is_token);
        token
            .map(str::to_owned)
            .ok_or_else(|| RegistryError::malformed(&url, "it gives no token"))
    }

    fn send(
        &self,
        expected: &Expected<'_>,
        authorization: Option<&str>,
    ) -> Result<Response<Body>, RegistryError> {
        let url = expected.url;
        let mut request = Request::builder().method(&expected.method).uri(url);
        for (name, value) in expected.headers {
            request = request.header(name, *value);
        }
        if let Some(authorization) = authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        let failed = |error| self.failure(url, &error);
        let invalid = |error: http::Error| RegistryError::malformed(url, error.to_string());
        let left = Some(self.end.saturating_duration_since(Instant::now()));
        if matches!(expected.method, Method::GET | Method::HEAD) {
            let request = request.body(()).map_err(invalid)?;
            let request = self.agent.configure_request(request);
            return self
                .agent
                .run(request.timeout_global(left).build())
                .map_err(failed);
        }
        let request = request.body(expected.body).map_err(invalid)?;
        let request = self.agent.configure_request(request);
        self.agent
            .run(request.timeout_global(left).build())
            .map_err(failed)
    }

    fn body(
        &self,
        url: &str,
        mut answer: Response<Body>,
        limit: u64,
    ) -> Result<Vec<u8>, RegistryError> {
        // The library's limit counts as exceeded when it is reached.
        let reader = answer.body_mut().with_config().limit(limit + 1);
        let bytes = reader.read_to_vec().map_err(|error| match error {
            ureq::Error::BodyExceedsLimit(_) => RegistryError::TooLarge {
                url: url.to_owned(),
                limit,
            },
            other => self.failure(url, &other),
        })?;
        if bytes.len() as u64 > limit {
            return Err(RegistryError::TooLarge {
                url: url.to_owned(),
                limit,
            });
        }
        Ok(bytes)
    }

    fn failure(&self, url: &str, error: &ureq::Error) -> RegistryError {
        let url = url.to_owned();
        match error {
            ureq::Error::Timeout(_) => RegistryError::Deadline {
                url,
                limit: self.options.limits.deadline,
            },
            other => RegistryError::Connection {
                url,
                reason: other.to_string(),
            },
        }
    }

    /// An answer that is not the one expected.
    fn refusal(&self, url: &str, answer: Response<Body>) -> RegistryError {
        let status = answer.status();
        let owned = url.to_owned();
        match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => RegistryError::Denied {
                url: owned,
                status: status.as_u16(),
            },
            StatusCode::NOT_FOUND => RegistryError::NotFound { url: owned },
            _ => {
                let body = self.body(url, answer, MAX_ANSWER).unwrap_or_default();
                RegistryError::Status {
                    url: owned,
                    status: status.as_u16(),
                    message: message(&body),
                }
            }
        }
    }
}

/// The messages of a registry's error (distribution-spec: `errors[].message`).
fn message(body: &[u8]) -> String {
    let json: BTreeMap<String, Json> = serde_json::from_slice(body).unwrap_or_default();
    let errors = json.get("errors").and_then(Json::as_array);
    let first = errors.and_then(|errors| errors.first()?["message"].as_str());
    first.map_or_else(String::new, |text| format!(": {}", quoted(text)))
}

fn roots(options: &Options) -> Result<RootCerts, RegistryError> {
    let mut certificates: Vec<Certificate<'static>> = Vec::new();
    for item in ureq::tls::parse_pem(&options.roots) {
        let item = item.map_err(|error| {
            RegistryError::Setup(format!("the certificates cannot be read: {error}"))
        })?;
        if let ureq::tls::PemItem::Certificate(certificate) = item {
            certificates.push(certificate);
        }
    }
    if certificates.is_empty() && !options.plain_http {
        return Err(RegistryError::Setup(
            "there are no certificates to trust: install ca-certificates, or give --ca FILE"
                .to_owned(),
        ));
    }
    Ok(RootCerts::new_with_certs(&certificates))
}
