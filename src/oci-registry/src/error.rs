//! Errors of requests to a registry.

use std::time::Duration;

use image_layout::Digest;

/// The maximum length of a registry's text in an error, in characters.
const MAX_QUOTED: usize = 200;

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// The registry cannot be reached, or it closed the connection.
    #[error("{url}: {reason}")]
    Connection {
        /// The URL of the request.
        url: String,
        /// The error of the HTTP library.
        reason: String,
    },
    /// No complete answer arrived within the deadline.
    #[error("{url}: no complete answer within {limit:?}")]
    Deadline {
        /// The URL of the request.
        url: String,
        /// The deadline of all requests of the client together.
        limit: Duration,
    },
    /// The registry requires credentials, or refuses the given ones.
    #[error(
        "{url}: the registry refuses access ({status}): log in with `podman login` or `docker \
         login`, or give --username"
    )]
    Denied {
        /// The URL of the request.
        url: String,
        /// 401 or 403.
        status: u16,
    },
    /// The registry has nothing under this name.
    #[error("{url}: the registry has nothing of this name")]
    NotFound {
        /// The URL of the request.
        url: String,
    },
    /// The registry answered with another status than expected.
    #[error("{url}: the registry answers {status}{message}")]
    Status {
        /// The URL of the request.
        url: String,
        /// The HTTP status.
        status: u16,
        /// `: ` and the registry's error message, escaped; empty if there is none.
        message: String,
    },
    /// An answer, or the announced size of a blob, exceeds the limit.
    #[error("{url}: the answer has more than the {limit} bytes that are read")]
    TooLarge {
        /// The URL of the request.
        url: String,
        /// The limit in bytes.
        limit: u64,
    },
    /// The content does not have the expected digest.
    #[error(
        "{url}: the content has the digest {found}, not {expected}: it was changed, or cut off"
    )]
    DigestMismatch {
        /// The URL of the request.
        url: String,
        /// The requested digest.
        expected: Digest,
        /// The digest of the content.
        found: Digest,
    },
    /// An answer is invalid.
    #[error("{url}: {reason}")]
    Malformed {
        /// The URL of the request.
        url: String,
        /// Why the answer is invalid.
        reason: String,
    },
    /// The certificates or credentials of this machine cannot be used.
    #[error("{0}")]
    Setup(String),
}

impl RegistryError {
    pub(crate) fn malformed(url: &str, reason: impl Into<String>) -> Self {
        Self::Malformed {
            url: url.to_owned(),
            reason: reason.into(),
        }
    }

    /// Whether this machine or the network is at fault, and not the request or the registry's answer.
    #[must_use]
    pub fn is_local_or_network_error(&self) -> bool {
        matches!(
            self,
            Self::Connection { .. } | Self::Deadline { .. } | Self::Setup(_)
        )
    }
}

/// A registry's text for an error: escaped, and cut to [`MAX_QUOTED`] characters.
pub(crate) fn quote(text: &str) -> String {
    let start: String = text.chars().take(MAX_QUOTED).collect();
    format!("{start:?}")
}
