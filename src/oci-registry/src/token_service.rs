//! Tokens of a registry's token service (Docker's token authentication).
//!
//! The registry names the service, so the address is not trusted: credentials go to the registry's own host, to the known
//! service of a public registry, or to a host that the caller names; never over plain HTTP to another host, and
//! redirects are not followed.

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;

use http::{Method, StatusCode, Uri};
use serde_json::Value as Json;

use crate::auth_challenge::{TokenChallenge, encoded};
use crate::error::quoted;
use crate::http_requests::{MAX_ANSWER, Query, Redirects, Transport};
use crate::{Credentials, RegistryError};

/// Public registries whose token service has another host.
const KNOWN_SERVICES: [(&str, &str); 2] = [
    ("registry-1.docker.io", "auth.docker.io"),
    ("registry.gitlab.com", "gitlab.com"),
];

/// What a token is for.
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
    /// Hosts that may have the credentials besides the registry's.
    pub(crate) token_hosts: &'a [String],
}

impl TokenRequest<'_> {
    /// Asks the service for a token.
    pub(crate) fn send(
        &self,
        challenge: &TokenChallenge,
        transport: &Transport,
    ) -> Result<String, RegistryError> {
        self.check_realm(&challenge.realm)?;
        let scope = self.scope(challenge.scope.as_deref())?;
        let mut url = format!("{}?scope={}", challenge.realm, encoded(&scope));
        if let Some(service) = &challenge.service {
            url += &format!("&service={}", encoded(service));
        }
        let basic = self.credentials.map(Credentials::basic);
        let query = Query::new(Method::GET, &url);
        let answer = transport.send(&query, basic.as_deref(), Redirects::Return)?;
        if answer.status().is_redirection() {
            let reason = "the token service redirects, which is not followed with credentials";
            return Err(RegistryError::malformed(&url, reason));
        }
        if answer.status() != StatusCode::OK {
            return Err(transport.refusal(&url, answer));
        }
        let body = transport.body(&url, answer, MAX_ANSWER)?;
        let json: Json = serde_json::from_slice(&body).unwrap_or_default();
        let token = json["token"].as_str().or(json["access_token"].as_str());
        let is_token = |token: &&str| token.bytes().all(|byte| byte.is_ascii_graphic());
        let token = token.filter(|token| !token.is_empty()).filter(is_token);
        token
            .map(str::to_owned)
            .ok_or_else(|| RegistryError::malformed(&url, "it gives no token"))
    }

    fn check_realm(&self, realm: &str) -> Result<(), RegistryError> {
        let uri = realm.parse::<Uri>().ok();
        let host = uri.as_ref().and_then(Uri::host).unwrap_or_default();
        let is_own = !host.is_empty() && host.eq_ignore_ascii_case(without_port(self.host));
        let scheme = uri.as_ref().and_then(Uri::scheme_str);
        let is_safe = match scheme {
            Some("https") => true,
            Some("http") => self.plain_http && is_own,
            _ => false,
        };
        if !is_safe || host.is_empty() || realm.contains(['?', '#', '@']) {
            return Err(self.refused(format!(
                "its service for tokens, {}, is not an https address",
                quoted(realm)
            )));
        }
        let registry = without_port(self.host);
        let is_named = self
            .token_hosts
            .iter()
            .any(|named| named.eq_ignore_ascii_case(host));
        if self.credentials.is_some()
            && !is_own
            && !is_named
            && !KNOWN_SERVICES.contains(&(registry, host))
        {
            return Err(self.refused(format!(
                "its service for tokens is on another host, {}, which is not given the credentials of {registry}: \
                 allow that with --token-host if the host belongs to the registry",
                quoted(host)
            )));
        }
        Ok(())
    }

    /// The registry's scope, unless it is about another repository, which a service of several registries might grant.
    /// For a push with push in any case: the first request of one only reads, so some registries ask for pull alone
    /// (Quay), and refuse that token for a repository that does not exist yet.
    fn scope(&self, wanted: Option<&str>) -> Result<String, RegistryError> {
        let scope_prefix = format!("repository:{}:", self.repository);
        let Some(wanted) = wanted else {
            let actions = if self.can_push { "pull,push" } else { "pull" };
            return Ok(format!("{scope_prefix}{actions}"));
        };
        let is_other =
            |item: &str| item.starts_with("repository:") && !item.starts_with(&scope_prefix);
        if wanted.split(' ').any(is_other) {
            return Err(self.refused(format!(
                "it wants a token for {}, which is another repository",
                quoted(wanted)
            )));
        }
        if !self.can_push {
            return Ok(wanted.to_owned());
        }
        let with_push =
            wanted
                .split(' ')
                .map(|item| match item.strip_prefix(scope_prefix.as_str()) {
                    Some(actions) => format!("{scope_prefix}{}", with_pull_and_push(actions)),
                    None => item.to_owned(),
                });
        Ok(with_push.collect::<Vec<_>>().join(" "))
    }

    fn refused(&self, reason: String) -> RegistryError {
        RegistryError::malformed(self.origin, reason)
    }
}

fn with_pull_and_push(actions: &str) -> String {
    let mut all: Vec<_> = actions.split(',').filter(|one| !one.is_empty()).collect();
    for wanted in ["pull", "push"] {
        if !all.contains(&wanted) {
            all.push(wanted);
        }
    }
    all.join(",")
}

fn without_port(host: &str) -> &str {
    host.rsplit_once(':')
        .filter(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()))
        .map_or(host, |(host, _)| host)
}
