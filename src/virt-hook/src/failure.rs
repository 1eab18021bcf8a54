//! How the tool ends when it has no result.

use std::io::Write;
use std::process::ExitCode;

/// The VMI was refused, or a hook did not do its work.
pub(crate) const REFUSED: u8 = 1;
/// The command line, or a file that it names, cannot be used; clap's own code for the first.
pub(crate) const USAGE: u8 = 2;

/// One line for standard error, and an exit code.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// A "no" to what was asked.
    #[error("{0:#}")]
    Refused(anyhow::Error),
    /// There was nothing sensible to ask.
    #[error("{0:#}")]
    Usage(anyhow::Error),
}

impl Failure {
    pub(crate) fn refused(error: impl Into<anyhow::Error>) -> Self {
        Self::Refused(error.into())
    }

    pub(crate) fn usage(error: impl Into<anyhow::Error>) -> Self {
        Self::Usage(error.into())
    }

    /// Says it.
    pub(crate) fn report(&self) -> ExitCode {
        let code = match self {
            Self::Refused(_) => REFUSED,
            Self::Usage(_) => USAGE,
        };
        let line = self.to_string().replace('\n', " ");
        let _ = writeln!(std::io::stderr(), "virt-hook: {line}");
        ExitCode::from(code)
    }
}
