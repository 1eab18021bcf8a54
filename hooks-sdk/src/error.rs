use std::fmt;
use std::panic::Location;

/// The result of a hook.
pub type Result<T = (), E = Error> = std::result::Result<T, E>;

/// A veto or failure of a hook.
///
/// `?` converts any error, with its text, its causes and the line of the `?`.
///
/// It stops nothing until it is returned: a hook that drops a veto starts the VM, so the compiler warns about it.
///
/// ```
/// # #![deny(unused_must_use)]
/// # fn refuse() -> hooks_sdk::Result {
/// return Err(hooks_sdk::veto("not here"));
/// # }
/// ```
///
/// ```compile_fail
/// # #![deny(unused_must_use)]
/// # fn refuse() -> hooks_sdk::Result {
/// hooks_sdk::veto("not here");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "a veto or a failure has no effect unless the hook returns it: `return Err(...)`"]
pub struct Error {
    text: String,
    veto: bool,
    location: &'static Location<'static>,
}

/// A veto: what the hook was called for must not happen. The text is for the virtual machine's owner.
///
/// At PreStart, PreCloudInitIso and OnDefineDomain the virtual machine does not start, at OnAttachDevice the device is not
/// attached, at PreMigrationSource the migration ends and the virtual machine runs on where it is.
///
/// ```
/// use hooks_sdk::{Result, Vmi, veto};
///
/// fn pre_start(vmi: &Vmi) -> Result {
///     match vmi.label("cost-centre") {
///         Some(_) => Ok(()),
///         None => Err(veto("a virtual machine needs the label cost-centre")),
///     }
/// }
///
/// assert!(pre_start(&Vmi::new("{}")).unwrap_err().is_veto());
/// ```
pub fn veto(text: impl Into<String>) -> Error {
    // Not shown: a line of the hook's source does not help the owner.
    Error {
        text: text.into(),
        veto: true,
        location: Location::caller(),
    }
}

/// A failure of the hook. The text says what failed; the source line is added.
#[track_caller]
pub fn failed(text: impl Into<String>) -> Error {
    Error {
        text: text.into(),
        veto: false,
        location: Location::caller(),
    }
}

impl Error {
    /// Whether it is a veto, not a failure.
    pub fn is_veto(&self) -> bool {
        self.veto
    }

    /// The text without the source line that `Display` adds to a failure.
    pub fn message(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.veto {
            return f.write_str(&self.text);
        }
        write!(
            f,
            "{} (at {}:{})",
            self.text,
            self.location.file(),
            self.location.line()
        )
    }
}

impl<E: std::error::Error> From<E> for Error {
    #[track_caller]
    fn from(error: E) -> Error {
        failed(chain(&error))
    }
}

/// The error and what caused it, skipping causes that the text already ends with.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let cause_text = error.to_string();
        if !text.ends_with(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        cause = error.source();
    }
    text
}

/// Adds context to an error or a missing value.
///
/// It is implemented for `Option`, for a `Result` with any error, and for the SDK's own [`Result`]: a veto stays a veto, and
/// a failure keeps its source line.
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

    use super::{Error, chain, failed};

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
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn parse(text: &str) -> Result<u8> {
        if text == "no" {
            return Err(veto("not on my watch"));
        }
        Ok(text.parse::<u8>()?)
    }

    #[test]
    fn any_error_fails_the_hook_with_its_text_and_line() {
        let error = parse("x").unwrap_err();
        assert!(!error.is_veto());
        let text = error.to_string();
        assert!(
            text.starts_with("invalid digit found in string (at "),
            "{text}"
        );
        assert!(text.contains("error.rs:"), "{text}");
    }

    #[test]
    fn veto_message_is_unchanged() {
        let error = parse("no").unwrap_err();
        assert!(error.is_veto());
        assert_eq!(error.to_string(), "not on my watch");
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
            error.starts_with("the queues: invalid digit") && error.contains("error.rs:"),
            "{error}"
        );
    }
}
