//! Tokens of a registry's token service (Docker's token authentication).
//!
//! The registry names the service, so the address is not trusted: credentials are sent only to the registry's own host,
//! to the known service of a public registry, or to a host that the caller names. They are never sent over plain HTTP
//! to another host, and redirects are not followed.

use http::{Method, StatusCode, Uri};
use serde_json::Value as Json;

use crate::error::quote;
use crate::http_transport::{HttpRequest, MAX_SMALL_ANSWER, Redirects, Transport};
use crate::percent_encoding::percent_encode;
use crate::{Credentials, RegistryError};

/// Public registries whose token service has another host.
const KNOWN_SERVICES: [(&str, &str); 2] = [
    ("registry-1.docker.io", "auth.docker.io"),
    ("registry.gitlab.com", "gitlab.com"),
];

/// A request for a token: the repository, the access, and who asks.
#[derive(Debug)]
pub(crate) struct TokenRequest<'a> {
    /// The registry's scheme, host and port.
    pub(crate) origin: &'a str,
    /// The registry's host and port.
    pub(crate) host: &'a str,
    pub(crate) repository: &'a str,
    pub(crate) can_push: bool,
    pub(crate) plain_http: bool,
    pub(crate) credentials: Option<&'a Credentials>,
    /// Hosts that may receive the credentials besides the registry's.
    pub(crate) token_hosts: &'a [String],
}

impl TokenRequest<'_> {
    /// Requests a token from the service.
    pub(crate) fn send(
        &self,
        challenge: &TokenChallenge,
        transport: &Transport,
    ) -> Result<String, RegistryError> {
        self.check_realm(&challenge.realm)?;
        let scope = self.scope(challenge.scope.as_deref())?;
        let mut url = format!("{}?scope={}", challenge.realm, percent_encode(&scope));
        if let Some(service) = &challenge.service {
            url += &format!("&service={}", percent_encode(service));
        }
        let basic = self.credentials.map(Credentials::basic_authorization);
        let request = HttpRequest::new(Method::GET, &url);
        let answer = transport.send(&request, basic.as_deref(), Redirects::Return)?;
        if answer.status().is_redirection() {
            let reason = "the token service redirects, which is not followed with credentials";
            return Err(RegistryError::malformed(&url, reason));
        }
        if answer.status() != StatusCode::OK {
            return Err(transport.status_error(&url, answer));
        }
        let body = transport.read_body(&url, answer, MAX_SMALL_ANSWER)?;
        let json: Json = serde_json::from_slice(&body).unwrap_or_default();
        let token = json["token"].as_str().or(json["access_token"].as_str());
        let is_printable = |token: &&str| token.bytes().all(|byte| byte.is_ascii_graphic());
        let token = token.filter(|token| !token.is_empty()).filter(is_printable);
        token
            .map(str::to_owned)
            .ok_or_else(|| RegistryError::malformed(&url, "it gives no token"))
    }

    fn check_realm(&self, realm: &str) -> Result<(), RegistryError> {
        let uri = realm.parse::<Uri>().ok();
        let host = uri.as_ref().and_then(Uri::host).unwrap_or_default();
        let is_registry_host =
            !host.is_empty() && host.eq_ignore_ascii_case(without_port(self.host));
        let scheme = uri.as_ref().and_then(Uri::scheme_str);
        let is_safe = match scheme {
            Some("https") => true,
            Some("http") => self.plain_http && is_registry_host,
            _ => false,
        };
        if !is_safe || host.is_empty() || realm.contains(['?', '#', '@']) {
            return Err(self.malformed(format!(
                "its service for tokens, {}, is not an https address",
                quote(realm)
            )));
        }
        let registry = without_port(self.host);
        let is_allowed = self
            .token_hosts
            .iter()
            .any(|allowed| allowed.eq_ignore_ascii_case(host));
        if self.credentials.is_some()
            && !is_registry_host
            && !is_allowed
            && !KNOWN_SERVICES.contains(&(registry, host))
        {
            return Err(self.malformed(format!(
                "its service for tokens is on another host, {}, which is not given the credentials of {registry}: \
                 allow that with --token-host if the host belongs to the registry",
                quote(host)
            )));
        }
        Ok(())
    }

    /// The scope to request: reading, or reading and writing, of this repository alone, whatever the challenge asks for.
    /// Some registries (Quay) ask for pull at the first request of a push, and then refuse that token for a repository
    /// that does not exist yet; and a registry that asks for more than pull would get a token that can do more. A challenge
    /// for another repository is an error, because a token service of several registries might grant it.
    fn scope(&self, challenge_scope: Option<&str>) -> Result<String, RegistryError> {
        let scope_prefix = format!("repository:{}:", self.repository);
        let is_other_repository =
            |item: &str| item.starts_with("repository:") && !item.starts_with(&scope_prefix);
        if let Some(challenge_scope) = challenge_scope
            && challenge_scope.split(' ').any(is_other_repository)
        {
            return Err(self.malformed(format!(
                "it wants a token for {}, which is another repository",
                quote(challenge_scope)
            )));
        }
        let actions = if self.can_push { "pull,push" } else { "pull" };
        Ok(format!("{scope_prefix}{actions}"))
    }

    fn malformed(&self, reason: String) -> RegistryError {
        RegistryError::malformed(self.origin, reason)
    }
}

fn without_port(host: &str) -> &str {
    host.rsplit_once(':')
        .filter(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()))
        .map_or(host, |(host, _)| host)
}

/// An authentication scheme that the registry asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Challenge {
    Basic,
    /// A bearer token from a token service.
    Bearer(TokenChallenge),
}

/// The parameters of a Bearer challenge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TokenChallenge {
    pub(crate) realm: String,
    pub(crate) service: Option<String>,
    pub(crate) scope: Option<String>,
}

impl Challenge {
    /// Parses the header's value; `None` if the scheme is neither Basic nor Bearer, or a Bearer challenge has no realm.
    pub(crate) fn parse(header: &str) -> Option<Self> {
        let (scheme, rest) = header.split_once(' ').unwrap_or((header, ""));
        if scheme.eq_ignore_ascii_case("basic") {
            return Some(Self::Basic);
        }
        if !scheme.eq_ignore_ascii_case("bearer") {
            return None;
        }
        let mut values = [None, None, None];
        let mut rest = rest;
        while let Some((name, value)) = rest.split_once("=\"") {
            let (value, after) = value.split_once('"')?;
            let name = name.trim_matches([',', ' ']);
            let index = ["realm", "service", "scope"]
                .iter()
                .position(|known| name.eq_ignore_ascii_case(known));
            if let Some(index) = index {
                values[index] = Some(value.to_owned());
            }
            rest = after;
        }
        let [realm, service, scope] = values;
        Some(Self::Bearer(TokenChallenge {
            realm: realm?,
            service,
            scope,
        }))
    }
}

#[cfg(test)]
mod tests;
