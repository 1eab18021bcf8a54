//! Why a registry cannot be used.

use std::time::Duration;

use image_layout::Digest;

/// The longest text of a registry that an error repeats, in characters.
const MAX_QUOTED: usize = 200;

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// The registry cannot be reached, or ended the connection.
    #[error("{url}: {reason}")]
    Connection {
        /// What was asked.
        url: String,
        /// Why.
        reason: String,
    },
    /// No answer, or not a whole one, within the deadline.
    #[error("{url}: no complete answer within {limit:?}")]
    Deadline {
        /// What was asked.
        url: String,
        /// The deadline of everything together.
        limit: Duration,
    },
    /// The registry wants to know who asks.
    #[error(
        "{url}: the registry refuses access ({status}): log in with `podman login` or `docker \
         login`, or give --username"
    )]
    Denied {
        /// What was asked.
        url: String,
        /// 401 or 403.
        status: u16,
    },
    /// Nothing has the name.
    #[error("{url}: the registry has nothing of this name")]
    NotFound {
        /// What was asked.
        url: String,
    },
    /// The registry answered with an error.
    #[error("{url}: the registry answers {status}{message}")]
    Status {
        /// What was asked.
        url: String,
        /// The status.
        status: u16,
        /// What it says, escaped.
        message: String,
    },
    /// An answer is longer than it may be.
    #[error("{url}: the answer has more than the {limit} bytes that are read")]
    TooLarge {
        /// What was asked.
        url: String,
        /// The limit in bytes.
        limit: u64,
    },
    /// Content does not have its digest.
    #[error(
        "{url}: the content has the digest {found}, not {expected}: it was changed, or cut off"
    )]
    OtherDigest {
        /// What was asked.
        url: String,
        /// The digest asked for.
        expected: Digest,
        /// That of the content.
        found: Digest,
    },
    /// An answer makes no sense.
    #[error("{url}: {reason}")]
    Malformed {
        /// What was asked.
        url: String,
        /// What is wrong with it.
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

    /// Whether this machine or the network is at fault, rather than what was asked for.
    #[must_use]
    pub fn is_fault_of_machine(&self) -> bool {
        matches!(
            self,
            Self::Connection { .. } | Self::Deadline { .. } | Self::Setup(_)
        )
    }
}

/// Text of a registry for errors: escaped, and short.
pub(crate) fn quoted(text: &str) -> String {
    let start: String = text.chars().take(MAX_QUOTED).collect();
    format!("{start:?}")
}
