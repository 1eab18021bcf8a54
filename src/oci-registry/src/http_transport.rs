//! Sends single HTTP requests, with the deadline of the client and a size limit for each answer.

use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant};

use http::header::AUTHORIZATION;
use http::{HeaderName, Method, Request, Response, StatusCode};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{CertificateError, ClientConfig, Error as TlsError, InvalidMessage};
use serde_json::Value as Json;
use ureq::config::RedirectAuthHeaders;
use ureq::unversioned::resolver::DefaultResolver;
use ureq::unversioned::transport::{ConnectProxyConnector, Connector, TcpConnector};
use ureq::{Agent, Body};

use crate::error::quote;
use crate::tls::{TlsConnector, is_not_trusted, trusting_config};
use crate::{Options, RegistryError};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The maximum size of a token, error or other small answer in bytes.
pub(crate) const MAX_SMALL_ANSWER: u64 = 64 << 10;

/// An HTTP request.
pub(crate) struct HttpRequest<'a> {
    pub(crate) method: Method,
    pub(crate) url: &'a str,
    pub(crate) headers: &'a [(HeaderName, &'a str)],
    pub(crate) body: &'a [u8],
}

impl<'a> HttpRequest<'a> {
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

/// Whether redirects are followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Redirects {
    /// Registries redirect to the storage of blobs. Credentials and tokens are not sent there.
    Follow,
    /// The redirecting answer is returned.
    Return,
}

/// Sends the requests of one client, until its deadline.
#[derive(Debug)]
pub(crate) struct Transport {
    agent: Agent,
    /// How long all requests together may take.
    timeout: Duration,
    deadline: Instant,
}

impl Transport {
    /// Creates a transport. The time limit starts now.
    pub(crate) fn new(options: &Options) -> Result<Self, RegistryError> {
        let config = Agent::config_builder()
            .https_only(!options.plain_http)
            .http_status_as_error(false)
            .redirect_auth_headers(RedirectAuthHeaders::Never)
            .timeout_connect(Some(CONNECT_TIMEOUT))
            .user_agent(concat!("virt-hook/", env!("CARGO_PKG_VERSION")))
            .build();
        let connector =
            ().chain(ConnectProxyConnector::default())
                .chain(TcpConnector::default())
                .chain(TlsConnector::new(tls_config(options)?));
        let timeout = options.limits.deadline;
        Ok(Self {
            agent: Agent::with_parts(config, connector, DefaultResolver::default()),
            timeout,
            deadline: Instant::now() + timeout,
        })
    }

    pub(crate) fn send(
        &self,
        http_request: &HttpRequest<'_>,
        authorization: Option<&str>,
        redirects: Redirects,
    ) -> Result<Response<Body>, RegistryError> {
        let url = http_request.url;
        let mut request = Request::builder().method(&http_request.method).uri(url);
        for (name, value) in http_request.headers {
            request = request.header(name, *value);
        }
        if let Some(authorization) = authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        let connection_error = |error| self.connection_error(url, &error);
        let invalid = |error: http::Error| RegistryError::malformed(url, error.to_string());
        let remaining = Some(self.deadline.saturating_duration_since(Instant::now()));
        if matches!(http_request.method, Method::GET | Method::HEAD) {
            let request = request.body(()).map_err(invalid)?;
            let mut request = self
                .agent
                .configure_request(request)
                .timeout_global(remaining);
            if redirects == Redirects::Return {
                request = request.max_redirects(0);
            }
            return self.agent.run(request.build()).map_err(connection_error);
        }
        let request = request.body(http_request.body).map_err(invalid)?;
        let mut request = self
            .agent
            .configure_request(request)
            .timeout_global(remaining);
        if redirects == Redirects::Return {
            request = request.max_redirects(0);
        }
        self.agent.run(request.build()).map_err(connection_error)
    }

    /// Reads the body of an answer, of at most `limit` bytes.
    pub(crate) fn read_body(
        &self,
        url: &str,
        mut answer: Response<Body>,
        limit: u64,
    ) -> Result<Vec<u8>, RegistryError> {
        let reader = answer.body_mut().with_config().limit(limit);
        reader.read_to_vec().map_err(|error| match error {
            ureq::Error::BodyExceedsLimit(_) => RegistryError::TooLarge {
                url: url.to_owned(),
                limit,
            },
            other => self.connection_error(url, &other),
        })
    }

    fn connection_error(&self, url: &str, error: &ureq::Error) -> RegistryError {
        let url = url.to_owned();
        match error {
            ureq::Error::Timeout(_) => RegistryError::Deadline {
                url,
                limit: self.timeout,
            },
            other => RegistryError::Connection {
                url,
                reason: connection_reason(other),
            },
        }
    }

    /// The error for an answer with another status than expected.
    pub(crate) fn status_error(&self, url: &str, answer: Response<Body>) -> RegistryError {
        let status = answer.status();
        let owned = url.to_owned();
        match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => RegistryError::Denied {
                url: owned,
                status: status.as_u16(),
            },
            StatusCode::NOT_FOUND => RegistryError::NotFound { url: owned },
            _ => {
                let body = self
                    .read_body(url, answer, MAX_SMALL_ANSWER)
                    .unwrap_or_default();
                let message = match message_suffix(&body) {
                    // Servers of HTTPS say nothing more to a HEAD.
                    message if message.is_empty() && status == StatusCode::BAD_REQUEST => {
                        hint_at_https(url)
                    }
                    message => message,
                };
                RegistryError::Status {
                    url: owned,
                    status: status.as_u16(),
                    message,
                }
            }
        }
    }
}

/// What a request without a registry's reason to refuse it may lack.
fn hint_at_https(url: &str) -> String {
    match url.starts_with("http://") {
        true => ": if it wants HTTPS, leave out --plain-http".to_owned(),
        false => String::new(),
    }
}

/// `: MESSAGE` for the first message of a registry's error (distribution-spec: `errors[].message`), or an empty string.
fn message_suffix(body: &[u8]) -> String {
    let json: BTreeMap<String, Json> = serde_json::from_slice(body).unwrap_or_default();
    let errors = json.get("errors").and_then(Json::as_array);
    let first = errors.and_then(|errors| errors.first()?["message"].as_str());
    first.map_or_else(String::new, |text| format!(": {}", quote(text)))
}

/// The configuration of TLS; `None` for plain HTTP without certificates.
fn tls_config(options: &Options) -> Result<Option<ClientConfig>, RegistryError> {
    let mut certificates = Vec::new();
    for certificate in CertificateDer::pem_slice_iter(&options.roots) {
        certificates.push(certificate.map_err(|error| {
            RegistryError::Setup(format!("the certificates cannot be read: {error}"))
        })?);
    }
    match (certificates.is_empty(), options.plain_http) {
        (true, true) => Ok(None),
        (true, false) => Err(RegistryError::Setup(
            "there are no certificates to trust: install ca-certificates, or give --ca FILE"
                .to_owned(),
        )),
        (false, _) => trusting_config(certificates).map(Some),
    }
}

const NOT_TRUSTED: &str = "its certificate is neither trusted nor issued by one that is: give the certificate of the registry, or of \
                           its issuer, with --ca FILE";
const NO_TLS: &str =
    "it does not answer with TLS: if it is meant to be used without, give --plain-http";

/// The text for an error of the HTTP library.
pub(crate) fn connection_reason(error: &ureq::Error) -> String {
    let io_error = match error {
        ureq::Error::Io(error) => error,
        ureq::Error::Rustls(error) => return tls_reason(error),
        other => return other.to_string(),
    };
    let tls_error = io_error.get_ref().and_then(|inner| inner.downcast_ref());
    match tls_error {
        Some(error) => tls_reason(error),
        None if io_error.kind() == io::ErrorKind::UnexpectedEof => {
            format!("it closed the connection ({io_error})")
        }
        None => io_error.to_string(),
    }
}

fn tls_reason(error: &TlsError) -> String {
    match error {
        error if is_not_trusted(error) => NOT_TRUSTED.to_owned(),
        // rustls prints this one with the names of its types.
        TlsError::InvalidCertificate(CertificateError::Other(other)) => {
            format!("its certificate is refused: {}", other.0)
        }
        TlsError::InvalidMessage(InvalidMessage::InvalidContentType) => NO_TLS.to_owned(),
        other => other.to_string(),
    }
}
