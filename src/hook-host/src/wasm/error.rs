//! Why a file is no module.

use std::io;
use std::path::PathBuf;

use super::artifact::ArtifactError;
use super::call::CallError;
use super::compile::CompileError;
use super::describe::DescriptionError;
use super::preflight::Flaw;

/// A file that did not become a module.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// It cannot be read.
    #[error("{path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is larger than a module may be.
    #[error(
        "{path}: it has {size} bytes, more than the {limit} a module may have: build it for size, and \
         without debug information"
    )]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Its bytes.
        size: u64,
        /// The limit.
        limit: u64,
    },
    /// It is no whole component.
    #[error("{path} ({size} bytes): {flaw}")]
    Flawed {
        /// The file.
        path: PathBuf,
        /// Its bytes.
        size: u64,
        /// What is wrong.
        flaw: Flaw,
    },
    /// It did not compile.
    #[error("{path} ({size} bytes): {source}")]
    Compile {
        /// The file.
        path: PathBuf,
        /// Its bytes.
        size: u64,
        /// Why.
        source: CompileError,
    },
    /// It is a component, but not a hook.
    #[error("{path} ({size} bytes): it is not a kubevirt:hooks@0.1 component: {message}")]
    WrongWorld {
        /// The file.
        path: PathBuf,
        /// Its bytes.
        size: u64,
        /// Which export or import does not fit.
        message: String,
    },
    /// It did not say what it is.
    #[error("{path} ({size} bytes): asked to describe itself, {source}")]
    Describe {
        /// The file.
        path: PathBuf,
        /// Its bytes.
        size: u64,
        /// What happened.
        source: CallError,
    },
    /// What it says of itself cannot be used.
    #[error("{path} ({size} bytes): {source}")]
    Description {
        /// The file.
        path: PathBuf,
        /// Its bytes.
        size: u64,
        /// What is wrong.
        source: DescriptionError,
    },
    /// It says something else of itself each time.
    #[error(
        "{path} ({size} bytes): it describes itself differently each time it is asked: what it says of \
         itself must not come of chance, the time, or what it did before"
    )]
    Fickle {
        /// The file.
        path: PathBuf,
        /// Its bytes.
        size: u64,
    },
    /// It is another module than the one that was pinned.
    #[error("{path} ({size} bytes): it has the sha256 {found}, not {expected} as {place} says")]
    Digest {
        /// The file.
        path: PathBuf,
        /// Its bytes.
        size: u64,
        /// What it has.
        found: String,
        /// The pin.
        expected: String,
        /// Where the pin stands.
        place: String,
    },
    /// The directory of compiled modules cannot be used.
    #[error(transparent)]
    Artifacts(#[from] ArtifactError),
    /// The engine could not be made, or does not load what was compiled for it.
    #[error("{path}: the WASM engine: {message}")]
    Engine {
        /// The file.
        path: PathBuf,
        /// Why.
        message: String,
    },
}

impl LoadError {
    /// Whether another file in its place could help; otherwise the fault is the host's.
    #[must_use]
    pub fn blames_the_file(&self) -> bool {
        match self {
            Self::Artifacts(_) | Self::Engine { .. } => false,
            Self::Compile { source, .. } => {
                matches!(source, CompileError::Refused(_) | CompileError::TooMuch(_))
            }
            _ => true,
        }
    }

    /// Whether it would have been a module with more memory or time to compile it.
    #[must_use]
    pub fn is_too_much(&self) -> bool {
        matches!(
            self,
            Self::Compile {
                source: CompileError::TooMuch(_),
                ..
            }
        )
    }
}
