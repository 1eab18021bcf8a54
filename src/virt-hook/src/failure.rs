//! How the tool ends when it has no result.

/// What was asked is not so: the VMI was refused, a hook did not do its work, a check or a test
/// failed, something is different.
pub(crate) const REFUSED: u8 = 1;
/// The command line, or a file that it names, cannot be used; clap's own code for the first.
pub(crate) const USAGE: u8 = 2;
/// This machine did not do its part: no space, no such program, no answer in time.
pub(crate) const MACHINE: u8 = 3;

/// One line for standard error, and an exit code.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// A "no" to what was asked.
    #[error("{}", words(.0))]
    Refused(anyhow::Error),
    /// There was nothing sensible to ask.
    #[error("{}", words(.0))]
    Usage(anyhow::Error),
    /// It could not be found out.
    #[error("{}", words(.0))]
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

    /// A "no" with the name of what it is about.
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

    /// What JSON calls it.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Refused(_) => "refused",
            Self::Usage(_) => "usage",
            Self::Machine(_) => "machine",
        }
    }

    /// The error without its ends of lines.
    pub(crate) fn line(&self) -> String {
        self.to_string().replace('\n', " ")
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
