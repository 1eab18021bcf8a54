//! The failure of a verb: an error with its exit code.

use std::io;

use hook_host::error_chain;
use hook_host::wasm::LoadError;

/// Exit code: the VMI was refused, a hook vetoed or failed, a check or a test failed, or a replay differs.
pub(crate) const REFUSED: u8 = 1;
/// Exit code: the command line, or a file that it names, cannot be used. The code is the one that clap uses.
pub(crate) const USAGE: u8 = 2;
/// Exit code: neither the input nor a hook is at fault: no space, a missing program, no answer in time.
pub(crate) const INTERNAL: u8 = 3;
/// Exit code of `compare` only: nothing was compared on some of the VMIs.
pub(crate) const NOT_COMPARED: u8 = 4;

/// An error with its exit code.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// Exit code [`REFUSED`].
    #[error("{}", error_text(.0))]
    Refused(anyhow::Error),
    /// Exit code [`USAGE`].
    #[error("{}", error_text(.0))]
    Usage(anyhow::Error),
    /// Exit code [`INTERNAL`].
    #[error("{}", error_text(.0))]
    Internal(anyhow::Error),
}

impl Failure {
    pub(crate) fn refused(error: impl Into<anyhow::Error>) -> Self {
        Self::Refused(error.into())
    }

    pub(crate) fn usage(error: impl Into<anyhow::Error>) -> Self {
        Self::Usage(error.into())
    }

    pub(crate) fn internal(error: impl Into<anyhow::Error>) -> Self {
        Self::Internal(error.into())
    }

    /// The failure of loading a module: `Usage` if the module is at fault, else `Internal`.
    pub(crate) fn from_load_error(error: LoadError) -> Self {
        match error.is_fault_of_module() {
            true => Self::usage(error),
            false => Self::internal(error),
        }
    }

    /// Changes the error, and keeps the exit code.
    pub(crate) fn map(self, change: impl FnOnce(anyhow::Error) -> anyhow::Error) -> Self {
        match self {
            Self::Refused(error) => Self::Refused(change(error)),
            Self::Usage(error) => Self::Usage(change(error)),
            Self::Internal(error) => Self::Internal(change(error)),
        }
    }

    /// Adds the name of the input to a refusal.
    pub(crate) fn about(self, input: &str) -> Self {
        match self {
            Self::Refused(error) => Self::Refused(error.context(input.to_owned())),
            other => other,
        }
    }

    pub(crate) fn code(&self) -> u8 {
        match self {
            Self::Refused(_) => REFUSED,
            Self::Usage(_) => USAGE,
            Self::Internal(_) => INTERNAL,
        }
    }

    /// The value of `kind` in JSON.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Refused(_) => "refused",
            Self::Usage(_) => "usage",
            Self::Internal(_) => "machine",
        }
    }

    /// The error in one line.
    pub(crate) fn line(&self) -> String {
        self.to_string().replace('\n', " ")
    }
}

/// An error and its causes, without causes that the text already contains.
pub(crate) fn error_text(error: &anyhow::Error) -> String {
    let mut text = error_chain(error.as_ref());
    for cause in error.chain() {
        if let Some(system) = cause.downcast_ref::<io::Error>()
            && let Some(advice) = advice(system.kind())
        {
            text = text.replace(&system.to_string(), advice);
        }
    }
    text
}

/// What to do about an error of a path, where the system's words do not say it.
fn advice(kind: io::ErrorKind) -> Option<&'static str> {
    match kind {
        io::ErrorKind::IsADirectory => Some("it is a directory: name a file"),
        io::ErrorKind::NotADirectory => {
            Some("it, or a directory in its path, is a file: name a directory")
        }
        // Of creating a directory.
        io::ErrorKind::AlreadyExists => Some("it exists, and is not a directory"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_in_place_of_a_file_is_said_to_be_one() {
        let of_system = || io::Error::from_raw_os_error(21);
        for error in [
            anyhow::Error::new(of_system()).context("vmi"),
            anyhow::Error::new(image_layout::ImageError::Io {
                path: "vmi".into(),
                source: of_system(),
            }),
        ] {
            assert_eq!(error_text(&error), "vmi: it is a directory: name a file");
        }
    }

    #[test]
    fn causes_in_the_text_are_not_repeated() {
        let error = anyhow::anyhow!("no").context("a: no").context("b");
        assert_eq!(error_text(&error), "b: a: no");
    }
}
