//! Why a hook cannot be tested.

use std::fmt;
use std::io;

use hook_host::wasm::LoadError;

use crate::module_build::BuildError;

/// Why a hook cannot be tested.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// It could not be built.
    Build(BuildError),
    /// The host could not load it.
    Load(LoadError),
    /// The host's runtime could not be created.
    Runtime(io::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Build(error) => error.fmt(f),
            Error::Load(error) => error.fmt(f),
            Error::Runtime(error) => write!(f, "no runtime for the hook host: {error}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            // Their texts are this error's.
            Error::Build(error) => error.source(),
            Error::Load(error) => error.source(),
            Error::Runtime(error) => Some(error),
        }
    }
}
