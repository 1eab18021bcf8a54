//! Image references: `registry.example/hooks:1@sha256:...`.

#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;

use image_layout::Digest;

/// The maximum length of a reference in bytes.
const MAX_REFERENCE: usize = 512;
/// The maximum length of a tag in bytes (distribution-spec).
const MAX_TAG: usize = 128;
const DEFAULT_TAG: &str = "latest";
/// The host names of Docker Hub, first the one that references use.
pub(crate) const DOCKER_HUB: [&str; 3] = ["docker.io", "index.docker.io", DOCKER_HUB_SERVER];
/// The host of Docker Hub's registry API.
const DOCKER_HUB_SERVER: &str = "registry-1.docker.io";

/// An image in a registry. The registry has to be named: there is no default registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    host: String,
    repository: String,
    tag: Option<String>,
    digest: Option<Digest>,
}

/// Why a text is not a reference.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a reference of an image such as registry.example/hooks:1: {reason}")]
pub struct ReferenceError {
    text: String,
    reason: &'static str,
}

impl Reference {
    /// The registry's host, with its port if there is one.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The repository.
    #[must_use]
    pub fn repository(&self) -> &str {
        &self.repository
    }

    /// The host that serves the registry API.
    pub(crate) fn server(&self) -> &str {
        match self.is_on_docker_hub() {
            true => DOCKER_HUB_SERVER,
            false => &self.host,
        }
    }

    /// The repository as the server calls it: Docker Hub's own images are in `library`.
    pub(crate) fn server_repository(&self) -> String {
        match self.is_on_docker_hub() && !self.repository.contains('/') {
            true => format!("library/{}", self.repository),
            false => self.repository.clone(),
        }
    }

    fn is_on_docker_hub(&self) -> bool {
        DOCKER_HUB.contains(&self.host.as_str())
    }

    /// The digest, if the reference pins one.
    #[must_use]
    pub fn digest(&self) -> Option<&Digest> {
        self.digest.as_ref()
    }

    /// The tag, `latest` by default; `None` if there is only a digest.
    #[must_use]
    pub fn tag(&self) -> Option<&str> {
        match (&self.tag, &self.digest) {
            (None, None) => Some(DEFAULT_TAG),
            (tag, _) => tag.as_deref(),
        }
    }

    /// The name in the URL of the manifest: the digest if there is one, else the tag.
    pub(crate) fn manifest_name(&self) -> &str {
        let digest = self.digest.as_ref().map(Digest::as_str);
        digest.or(self.tag()).unwrap_or(DEFAULT_TAG)
    }

    /// The reference to the same repository by this digest alone.
    #[must_use]
    pub fn pinned(&self, digest: &Digest) -> String {
        format!("{}/{}@{digest}", self.host, self.repository)
    }
}

impl FromStr for Reference {
    type Err = ReferenceError;

    fn from_str(text: &str) -> Result<Self, ReferenceError> {
        parse(text).map_err(|reason| ReferenceError {
            text: text.chars().take(MAX_REFERENCE).collect(),
            reason,
        })
    }
}

/// Parses a reference, or says why it is invalid.
fn parse(text: &str) -> Result<Reference, &'static str> {
    if text.len() > MAX_REFERENCE {
        return Err("it is too long");
    }
    let (rest, digest) = match text.split_once('@') {
        Some((rest, digest)) => {
            let digest = digest.parse();
            (
                rest,
                Some(digest.map_err(|_| "its digest is not a sha256")?),
            )
        }
        None => (text, None),
    };
    let (host, rest) = rest.split_once('/').ok_or("the registry is missing")?;
    let (repository, tag) = match rest.rsplit_once(':') {
        Some((repository, tag)) => (repository, Some(tag)),
        None => (rest, None),
    };
    if !is_host(host) {
        return Err("the registry is missing: it has a dot or a port, or is localhost");
    }
    if !repository.split('/').all(is_component) {
        return Err("the repository has a-z, 0-9, and . _ - between them");
    }
    if tag.is_some_and(|tag| !is_tag(tag)) {
        return Err("the tag has letters, digits, _ . and -, at most 128");
    }
    Ok(Reference {
        host: host.to_owned(),
        repository: repository.to_owned(),
        tag: tag.map(str::to_owned),
        digest,
    })
}

fn is_host(host: &str) -> bool {
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) => (name, Some(port)),
        None => (host, None),
    };
    let is_label = |label: &str| {
        !label.is_empty()
            && label
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    let is_host_like = name.contains('.') || port.is_some() || name == "localhost";
    is_host_like
        && name.split('.').all(is_label)
        && port.is_none_or(|port| port.parse::<u16>().is_ok_and(|port| port > 0))
}

fn is_component(component: &str) -> bool {
    let is_allowed = |byte: u8| {
        byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'.' | b'_' | b'-')
    };
    let is_edge = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
    component.bytes().all(is_allowed)
        && is_edge(component.bytes().next())
        && is_edge(component.bytes().next_back())
        && !component.contains("..")
}

fn is_tag(tag: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    (1..=MAX_TAG).contains(&tag.len())
        && tag.bytes().next().is_some_and(is_word)
        && tag
            .bytes()
            .all(|byte| is_word(byte) || matches!(byte, b'.' | b'-'))
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.host, self.repository)?;
        if let Some(tag) = self.tag() {
            write!(f, ":{tag}")?;
        }
        match &self.digest {
            Some(digest) => write!(f, "@{digest}"),
            None => Ok(()),
        }
    }
}
