//! References of images: `registry.example/hooks:1@sha256:...`.

use std::fmt;
use std::str::FromStr;

use image_layout::Digest;

const MAX_REFERENCE: usize = 512;
const MAX_TAG: usize = 128;
const DEFAULT_TAG: &str = "latest";
/// The names of Docker Hub, first the one of references.
pub(crate) const DOCKER_HUB: [&str; 3] = ["docker.io", "index.docker.io", DOCKER_HUB_SERVER];
/// The host that serves Docker Hub's images.
const DOCKER_HUB_SERVER: &str = "registry-1.docker.io";

/// An image in a registry. The registry is always named: there is no default one.
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

    /// The host that is asked.
    pub(crate) fn server(&self) -> &str {
        match DOCKER_HUB.contains(&self.host.as_str()) {
            true => DOCKER_HUB_SERVER,
            false => &self.host,
        }
    }

    /// The repository as the server calls it: Docker Hub's own images are in `library`.
    pub(crate) fn server_repository(&self) -> String {
        let is_hub = DOCKER_HUB.contains(&self.host.as_str());
        match is_hub && !self.repository.contains('/') {
            true => format!("library/{}", self.repository),
            false => self.repository.clone(),
        }
    }

    /// The digest, if the reference pins one.
    #[must_use]
    pub fn digest(&self) -> Option<&Digest> {
        self.digest.as_ref()
    }

    /// The tag; `None` if there is only a digest.
    #[must_use]
    pub fn tag(&self) -> Option<&str> {
        match (&self.tag, &self.digest) {
            (None, None) => Some(DEFAULT_TAG),
            (tag, _) => tag.as_deref(),
        }
    }

    /// What a manifest is asked for by: the digest if there is one.
    pub(crate) fn manifest_name(&self) -> &str {
        let digest = self.digest.as_ref().map(Digest::as_str);
        digest.or(self.tag()).unwrap_or(DEFAULT_TAG)
    }

    /// The same image by its digest alone.
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
    let label = |label: &str| {
        !label.is_empty()
            && label
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    let is_named = name.contains('.') || port.is_some() || name == "localhost";
    is_named
        && name.split('.').all(label)
        && port.is_none_or(|port| port.parse::<u16>().is_ok_and(|port| port > 0))
}

fn is_component(component: &str) -> bool {
    let inner = |byte: u8| {
        byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'.' | b'_' | b'-')
    };
    let edge = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
    let mut bytes = component.bytes();
    component.bytes().all(inner)
        && edge(component.bytes().next())
        && edge(bytes.next_back())
        && !component.contains("..")
}

fn is_tag(tag: &str) -> bool {
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    (1..=MAX_TAG).contains(&tag.len())
        && tag.bytes().next().is_some_and(word)
        && tag
            .bytes()
            .all(|byte| word(byte) || matches!(byte, b'.' | b'-'))
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn references_are_split_into_their_parts() {
        let digest = format!("sha256:{}", "a1".repeat(32));
        for (text, host, repository, tag, pinned) in [
            (
                "r.example/hooks",
                "r.example",
                "hooks",
                Some("latest"),
                false,
            ),
            (
                "r.example:5000/a/b_c:1.0-x",
                "r.example:5000",
                "a/b_c",
                Some("1.0-x"),
                false,
            ),
            ("localhost/h:1", "localhost", "h", Some("1"), false),
            (
                &format!("r.example/h@{digest}"),
                "r.example",
                "h",
                None,
                true,
            ),
            (
                &format!("r.example/h:1@{digest}"),
                "r.example",
                "h",
                Some("1"),
                true,
            ),
        ] {
            let reference: Reference = text.parse().unwrap();
            assert_eq!(reference.host(), host);
            assert_eq!(reference.repository(), repository);
            assert_eq!(reference.tag(), tag);
            assert_eq!(reference.digest().is_some(), pinned);
        }
    }

    #[test]
    fn docker_hub_is_asked_at_its_server() {
        for (text, server, repository) in [
            ("docker.io/a", "registry-1.docker.io", "library/a"),
            ("index.docker.io/me/a", "registry-1.docker.io", "me/a"),
            ("registry-1.docker.io/me/a", "registry-1.docker.io", "me/a"),
            ("r.example/a", "r.example", "a"),
        ] {
            let reference: Reference = text.parse().unwrap();
            let found = (reference.server(), reference.server_repository());
            assert_eq!(found, (server, repository.to_owned()), "{text}");
        }
    }

    #[test]
    fn invalid_reference_is_refused() {
        for text in [
            "",
            "hooks",
            "hooks:1",
            "a/b",
            "r.example/",
            "r.example/A",
            "r.example/a//b",
            "r.example/../b",
            "r.example/a:",
            "r.example/a:b/c",
            "r.example:0/a",
            "r.example:x/a",
            "r.example/a@sha256:abc",
            "r.example/a@",
            "user@r.example/a",
            "r.exa mple/a",
            "r.example/a?x",
            "r.example/a#x",
            "https://r.example/a",
            "r.example/-a",
            ".r/a",
            "r.example/a:\u{1b}",
            "[::1]:5000/a",
        ] {
            assert!(text.parse::<Reference>().is_err(), "{text:?}");
        }
        assert!("r.example/".repeat(100).parse::<Reference>().is_err());
    }
}
