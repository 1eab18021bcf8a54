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
    #[error("{}", words(.0))]
    Refused(anyhow::Error),
    /// There was nothing sensible to ask.
    #[error("{}", words(.0))]
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

/// An error and its causes, those left out that the text before them has already said.
pub(crate) fn words(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1) {
        let cause = cause.to_string();
        if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_said_twice() {
        let error = anyhow::anyhow!("no").context("a: no").context("b");
        assert_eq!(words(&error), "b: a: no");
    }
}
