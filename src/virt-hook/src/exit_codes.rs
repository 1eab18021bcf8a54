//! Exit codes and the errors behind them.

use hook_host::wasm::LoadError;

/// The VMI was refused, a hook vetoed or failed, a check or a test failed, or a replay differs.
pub(crate) const REFUSED: u8 = 1;
/// The command line, or a file that it names, cannot be used; clap's own code for the first.
pub(crate) const USAGE: u8 = 2;
/// This machine is at fault: no space, a missing program, no answer in time.
pub(crate) const MACHINE: u8 = 3;
/// Of `compare`: nothing was compared on some of the VMIs.
pub(crate) const NOT_COMPARED: u8 = 4;

/// An error with its exit code.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// Exit code 1.
    #[error("{}", error_text(.0))]
    Refused(anyhow::Error),
    /// Exit code 2.
    #[error("{}", error_text(.0))]
    Usage(anyhow::Error),
    /// Exit code 3.
    #[error("{}", error_text(.0))]
    Machine(anyhow::Error),
}

impl Failure {
    pub(crate) fn refused(error: impl Into<anyhow::Error>) -> Self {
        Self::Refused(error.into())
    }

    pub(crate) fn usage(error: impl Into<anyhow::Error>) -> Self {
        Self::Usage(error.into())
    }

    pub(crate) fn machine(error: impl Into<anyhow::Error>) -> Self {
        Self::Machine(error.into())
    }

    /// A module that cannot be loaded, or could not be loaded here.
    pub(crate) fn of_load(error: LoadError) -> Self {
        match error.is_fault_of_module() {
            true => Self::usage(error),
            false => Self::machine(error),
        }
    }

    /// The same failure with another error.
    pub(crate) fn map(self, change: impl FnOnce(anyhow::Error) -> anyhow::Error) -> Self {
        match self {
            Self::Refused(error) => Self::Refused(change(error)),
            Self::Usage(error) => Self::Usage(change(error)),
            Self::Machine(error) => Self::Machine(change(error)),
        }
    }

    /// Adds the name of the input to a refusal.
    pub(crate) fn about(self, what: &str) -> Self {
        match self {
            Self::Refused(error) => Self::Refused(error.context(what.to_owned())),
            other => other,
        }
    }

    pub(crate) fn code(&self) -> u8 {
        match self {
            Self::Refused(_) => REFUSED,
            Self::Usage(_) => USAGE,
            Self::Machine(_) => MACHINE,
        }
    }

    /// The value of `kind` in JSON.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Refused(_) => "refused",
            Self::Usage(_) => "usage",
            Self::Machine(_) => "machine",
        }
    }

    /// The error in one line.
    pub(crate) fn line(&self) -> String {
        self.to_string().replace('\n', " ")
    }
}

/// An error and its causes, without causes that the text already contains.
pub(crate) fn error_text(error: &anyhow::Error) -> String {
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
    fn causes_in_the_text_are_not_repeated() {
        let error = anyhow::anyhow!("no").context("a: no").context("b");
        assert_eq!(error_text(&error), "b: a: no");
    }
}
