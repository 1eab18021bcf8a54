//! Why a hook may not run.

use crate::policy::PolicyError;
use crate::policy::unknown_domain_path::UnknownPath;

/// Why a hook may not run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    /// A line of `hook.yaml` contradicts the module or the operator's policy.
    #[error(transparent)]
    Line(#[from] PolicyError),
    /// The module's digest is not the pinned one.
    #[error("{place}: the module has the sha256 {actual}, not {expected}")]
    Digest {
        /// File, line and column of the pinned digest.
        place: String,
        /// The pinned digest.
        expected: String,
        /// The module's digest.
        actual: String,
    },
    /// The operator's policy requires a known digest.
    #[error("{place}: modules run only when {condition}; this one has the sha256 {digest}")]
    UnknownDigest {
        /// File, line and column in the policy.
        place: String,
        /// The condition for running, such as that a rule lists the digest.
        condition: &'static str,
        /// The module's digest.
        digest: String,
    },
    /// The operator's policy denies the module, whatever else permits it.
    #[error(
        "{place}: the operator denies the module with the sha256 {digest}, whatever else permits it: use another build"
    )]
    Denied {
        /// File, line and column in the policy.
        place: String,
        /// The module's digest.
        digest: String,
    },
    /// The operator's policy requires a signature.
    #[error(
        "{place}: modules that this rule names run only if one of its keys signed them: {reason}"
    )]
    NotSigned {
        /// The position of the rule's keys.
        place: String,
        /// Why the module counts as unsigned.
        reason: String,
    },
    /// The operator forbids gRPC sidecars.
    #[error("{place}: gRPC sidecars are forbidden")]
    Sidecar {
        /// File, line and column in the policy.
        place: String,
    },
    /// The module declares a wish that is not granted.
    #[error("it wants the {what} {wish:?}, {}", remedy(wish, origin))]
    NotGranted {
        /// `path`, `directory`, `configuration key`, `hook point` or `parameter of a migration`.
        what: &'static str,
        /// The wish.
        wish: String,
        /// The list that would have to contain the wish.
        origin: String,
    },
}

/// The remedy for a wish. A path that is probably misspelt should not be added to a policy.
fn remedy(wish: &str, origin: &str) -> String {
    let domain_path = Some(wish).filter(|wish| wish.starts_with("/domain"));
    match domain_path.and_then(UnknownPath::of) {
        None => format!("which {origin} does not allow: add it there"),
        Some(unknown) => {
            format!("and {unknown} If the path is right, add it to {origin}")
        }
    }
}

impl ResolveError {
    /// Whether a policy refuses the module or one of its wishes; otherwise a file has a mistake.
    pub(crate) fn is_refusal(&self) -> bool {
        match self {
            Self::UnknownDigest { .. }
            | Self::Denied { .. }
            | Self::NotSigned { .. }
            | Self::Sidecar { .. }
            | Self::NotGranted { .. } => true,
            Self::Line(_) | Self::Digest { .. } => false,
        }
    }
}
