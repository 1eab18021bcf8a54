//! [`Context`]: a text before an error, or in place of a missing value.

use std::fmt;

use crate::Result;
use crate::hook_error::failed;

/// Adds context to an error or a missing value.
///
/// It is implemented for `Option`, for a `Result` with any error, and for the SDK's own [`Result`]: a veto stays a
/// veto, and a failure keeps its source line.
///
/// ```
/// use hooks_sdk::{Context, Domain, Result, Vmi};
///
/// fn set_queues(vmi: &Vmi, domain: &mut Domain) -> Result {
///     let queues = vmi.annotation("example.com/queues").context("no annotation example.com/queues")?;
///     let queues: u8 = queues.parse().with_context(|| format!("example.com/queues is {queues:?}"))?;
///     domain.set("devices/disk/driver/@queues", queues.to_string())?;
///     Ok(())
/// }
///
/// fn tune(vmi: &Vmi, domain: &mut Domain) -> Result {
///     set_queues(vmi, domain).context("tuning the disks")
/// }
///
/// let vmi = Vmi::new(r#"{"metadata":{"annotations":{"example.com/queues":"many"}}}"#);
/// let error = tune(&vmi, &mut Domain::parse("<domain/>")?).unwrap_err();
/// assert_eq!(
///     error.message(),
///     "tuning the disks: example.com/queues is \"many\": invalid digit found in string"
/// );
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Context<T>: sealed::Sealed {
    /// `Err` or `None` fails the hook with this text.
    ///
    /// # Errors
    /// If the value is missing or an error.
    fn context(self, text: impl fmt::Display) -> Result<T>;

    /// As [`Context::context`], with a text that is made only for an error.
    ///
    /// # Errors
    /// If the value is missing or an error.
    fn with_context<C: fmt::Display>(self, text: impl FnOnce() -> C) -> Result<T>;
}

/// Only the SDK implements [`Context`], so that methods can be added to it.
mod sealed {
    use std::fmt;

    use crate::hook_error::{Error, chain, failed};

    pub trait Sealed {}

    impl<T> Sealed for Option<T> {}
    impl<T, E> Sealed for Result<T, E> {}

    /// An error that gets a context. One trait for both kinds, so that the compiler infers the type in
    /// `let n: u8 = text.parse().context("...")?`.
    pub trait WithContext {
        fn with_context(self, context: impl fmt::Display) -> Error;
    }

    impl<E: std::error::Error> WithContext for E {
        #[track_caller]
        fn with_context(self, context: impl fmt::Display) -> Error {
            failed(format!("{context}: {}", chain(&self)))
        }
    }

    /// A veto stays a veto, and a failure keeps its place.
    impl WithContext for Error {
        fn with_context(mut self, context: impl fmt::Display) -> Error {
            self.text = format!("{context}: {}", self.text);
            self
        }
    }
}

impl<T, E: sealed::WithContext> Context<T> for std::result::Result<T, E> {
    #[track_caller]
    fn context(self, text: impl fmt::Display) -> Result<T> {
        match self {
            Ok(value) => Ok(value),
            Err(error) => Err(error.with_context(text)),
        }
    }

    #[track_caller]
    fn with_context<C: fmt::Display>(self, text: impl FnOnce() -> C) -> Result<T> {
        match self {
            Ok(value) => Ok(value),
            Err(error) => Err(error.with_context(text())),
        }
    }
}

impl<T> Context<T> for Option<T> {
    #[track_caller]
    fn context(self, text: impl fmt::Display) -> Result<T> {
        match self {
            Some(value) => Ok(value),
            None => Err(failed(text.to_string())),
        }
    }

    #[track_caller]
    fn with_context<C: fmt::Display>(self, text: impl FnOnce() -> C) -> Result<T> {
        match self {
            Some(value) => Ok(value),
            None => Err(failed(text().to_string())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::veto;

    fn parse(text: &str) -> Result<u8> {
        if text == "no" {
            return Err(veto("not on my watch"));
        }
        Ok(text.parse::<u8>()?)
    }

    #[test]
    fn context_precedes_the_error() {
        let text = "x"
            .parse::<u8>()
            .context("reading the queues")
            .unwrap_err()
            .to_string();
        assert!(
            text.starts_with("reading the queues: invalid digit"),
            "{text}"
        );
        assert!(
            None::<u8>
                .context("no disk vda")
                .unwrap_err()
                .to_string()
                .starts_with("no disk vda (at ")
        );
    }

    #[test]
    fn context_of_the_sdks_own_error_keeps_its_kind_and_line() {
        let failure = parse("x");
        let line = failure.as_ref().unwrap_err().location;
        let failure = failure.context("reading the queues").unwrap_err();
        assert_eq!(failure.location, line);
        assert_eq!(
            failure.message(),
            "reading the queues: invalid digit found in string"
        );
        let veto = parse("no").with_context(|| "disk vda").unwrap_err();
        assert!(veto.is_veto());
        assert_eq!(veto.to_string(), "disk vda: not on my watch");
    }

    #[test]
    fn context_text_is_made_only_for_errors() {
        let unused = || -> String { unreachable!("there is no error") };
        assert_eq!(Some(1).with_context(unused).unwrap(), 1);
        assert_eq!("1".parse::<u8>().with_context(unused).unwrap(), 1);
        assert_eq!(parse("1").with_context(unused).unwrap(), 1);
        let error = "x".parse::<u8>().with_context(|| "the queues");
        let error = error.unwrap_err().to_string();
        assert!(
            error.starts_with("the queues: invalid digit") && error.contains("context.rs:"),
            "{error}"
        );
    }
}
