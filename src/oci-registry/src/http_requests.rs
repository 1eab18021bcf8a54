//! Single requests, with the deadline of the client and limited answers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::header::AUTHORIZATION;
use http::{HeaderName, Method, Request, Response, StatusCode};
use serde_json::Value as Json;
use ureq::config::RedirectAuthHeaders;
use ureq::tls::{Certificate, RootCerts, TlsConfig, TlsProvider};
use ureq::{Agent, Body};

use crate::error::quoted;
use crate::{Options, RegistryError};

const CONNECT: Duration = Duration::from_secs(10);
/// The largest token, error or other small answer in bytes.
pub(crate) const MAX_ANSWER: u64 = 64 << 10;

/// A request.
pub(crate) struct Query<'a> {
    pub(crate) method: Method,
    pub(crate) url: &'a str,
    pub(crate) headers: &'a [(HeaderName, &'a str)],
    pub(crate) body: &'a [u8],
}

impl<'a> Query<'a> {
    /// A request without a body.
    pub(crate) fn new(method: Method, url: &'a str) -> Self {
        Self {
            method,
            url,
            headers: &[],
            body: &[],
        }
    }
}

/// Whether an answer may send the client elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Redirects {
    /// Registries keep blobs elsewhere. Credentials and tokens stay with the registry.
    Follow,
    /// The answer is returned as it is.
    Return,
}

/// Sends requests until the deadline.
#[derive(Debug)]
pub(crate) struct Transport {
    agent: Agent,
    /// The deadline of all requests together.
    limit: Duration,
    end: Instant,
}

impl Transport {
    /// The deadline begins now.
    pub(crate) fn new(options: &Options) -> Result<Self, RegistryError> {
        let tls = TlsConfig::builder()
            .provider(TlsProvider::Rustls)
            .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .root_certs(roots(options)?)
            .build();
        let config = Agent::config_builder()
            .tls_config(tls)
            .https_only(!options.plain_http)
            .http_status_as_error(false)
            .redirect_auth_headers(RedirectAuthHeaders::Never)
            .timeout_connect(Some(CONNECT))
            .user_agent(concat!("virt-hook/", env!("CARGO_PKG_VERSION")))
            .build();
        let limit = options.limits.deadline;
        Ok(Self {
            agent: config.into(),
            limit,
            end: Instant::now() + limit,
        })
    }

    pub(crate) fn send(
        &self,
        query: &Query<'_>,
        authorization: Option<&str>,
        redirects: Redirects,
    ) -> Result<Response<Body>, RegistryError> {
        let url = query.url;
        let mut request = Request::builder().method(&query.method).uri(url);
        for (name, value) in query.headers {
            request = request.header(name, *value);
        }
        if let Some(authorization) = authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        let failed = |error| self.failure(url, &error);
        let invalid = |error: http::Error| RegistryError::malformed(url, error.to_string());
        let left = Some(self.end.saturating_duration_since(Instant::now()));
        if matches!(query.method, Method::GET | Method::HEAD) {
            let request = request.body(()).map_err(invalid)?;
            let mut request = self.agent.configure_request(request).timeout_global(left);
            if redirects == Redirects::Return {
                request = request.max_redirects(0);
            }
            return self.agent.run(request.build()).map_err(failed);
        }
        let request = request.body(query.body).map_err(invalid)?;
        let mut request = self.agent.configure_request(request).timeout_global(left);
        if redirects == Redirects::Return {
            request = request.max_redirects(0);
        }
        self.agent.run(request.build()).map_err(failed)
    }

    /// The body of an answer, of at most `limit` bytes.
    pub(crate) fn body(
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
                limit: self.limit,
            },
            other => RegistryError::Connection {
                url,
                reason: other.to_string(),
            },
        }
    }

    /// An answer that is not the one expected.
    pub(crate) fn refusal(&self, url: &str, answer: Response<Body>) -> RegistryError {
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
