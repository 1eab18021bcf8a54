//! Errors of loading a module file.

use std::io;
use std::path::PathBuf;

use super::artifact_cache::ArtifactError;
use super::call_types::CallError;
use super::compile_error::CompileError;
use super::section_headers::IncompleteComponent;
use super::store_limiter::MEMORY_LIMIT_MESSAGE_PART;
use super::wit_versions::LinkError;
use crate::module_description::DescriptionError;

/// Why a file could not be loaded as a hook module.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file cannot be read.
    #[error("{path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The file exceeds the size limit.
    #[error(
        "{path}: it has {size} bytes, more than the {limit} a module may have: build it for size, and \
         without debug information"
    )]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Size of the file in bytes.
        size: u64,
        /// The limit.
        limit: u64,
    },
    /// The file is not a complete component.
    #[error("{path} ({size} bytes): {flaw}")]
    Flawed {
        /// The file.
        path: PathBuf,
        /// Size of the file in bytes.
        size: u64,
        /// What is invalid.
        flaw: IncompleteComponent,
    },
    /// The module did not compile.
    #[error("{path} ({size} bytes): {source}")]
    Compile {
        /// The file.
        path: PathBuf,
        /// Size of the file in bytes.
        size: u64,
        /// The cause.
        source: CompileError,
    },
    /// The component is not a hook of a supported version.
    #[error("{path} ({size} bytes): {source}")]
    WrongWorld {
        /// The file.
        path: PathBuf,
        /// Size of the file in bytes.
        size: u64,
        /// The export or import that does not match.
        source: LinkError,
    },
    /// The call of `describe` failed.
    #[error("{path} ({size} bytes): asked to describe itself, {source}")]
    Describe {
        /// The file.
        path: PathBuf,
        /// Size of the file in bytes.
        size: u64,
        /// The error of the call.
        source: CallError,
    },
    /// The description is invalid.
    #[error("{path} ({size} bytes): {source}")]
    Description {
        /// The file.
        path: PathBuf,
        /// Size of the file in bytes.
        size: u64,
        /// What is invalid.
        source: DescriptionError,
    },
    /// Two calls of `describe` returned different texts.
    #[error(
        "{path} ({size} bytes): it describes itself differently each time it is asked: what it says of \
         itself must not come of chance, the time, or what it did before"
    )]
    UnstableDescription {
        /// The file.
        path: PathBuf,
        /// Size of the file in bytes.
        size: u64,
    },
    /// The module's digest is not the pinned one.
    #[error("{path} ({size} bytes): it has the sha256 {found}, not {expected} as {place} says")]
    Digest {
        /// The file.
        path: PathBuf,
        /// Size of the file in bytes.
        size: u64,
        /// The module's digest.
        found: String,
        /// The pinned digest.
        expected: String,
        /// The file, line and column of the pin.
        place: String,
    },
    /// The directory of compiled modules cannot be used.
    #[error(transparent)]
    Artifacts(#[from] ArtifactError),
    /// The engine could not be created, or did not load code that was compiled for it.
    #[error("{path}: the WASM engine: {message}")]
    Engine {
        /// The file.
        path: PathBuf,
        /// The cause.
        message: String,
    },
}

impl LoadError {
    /// Whether the cause is the module file, so that another file could succeed; otherwise the cause is the host.
    #[must_use]
    pub fn is_fault_of_module(&self) -> bool {
        match self {
            Self::Artifacts(_) | Self::Engine { .. } => false,
            Self::Compile { source, .. } => {
                matches!(
                    source,
                    CompileError::Refused(_) | CompileError::LimitExceeded(_)
                )
            }
            _ => true,
        }
    }

    /// Whether the call of `describe` exceeded the memory limit.
    #[must_use]
    pub fn exceeds_memory(&self) -> bool {
        matches!(self, Self::Describe { source, .. } if source.to_string().contains(MEMORY_LIMIT_MESSAGE_PART))
    }

    /// Whether the compilation exceeded its limits, so that it could succeed with higher limits.
    #[must_use]
    pub fn exceeds_compile_limits(&self) -> bool {
        matches!(
            self,
            Self::Compile {
                source: CompileError::LimitExceeded(_),
                ..
            }
        )
    }
}
