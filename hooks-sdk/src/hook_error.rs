//! The error of a hook: a veto, or a failure with the place in the source; and the result type with it.

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
    pub(crate) text: String,
    veto: bool,
    pub(crate) location: &'static Location<'static>,
}

/// A veto: what the hook was called for must not happen. The text is for the virtual machine's owner.
///
/// At PreStart, PreCloudInitIso and OnDefineDomain the virtual machine does not start, at OnAttachDevice the device is
/// not attached, at PreMigrationSource the migration ends and the virtual machine runs on where it is.
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
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
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

#[cfg(test)]
mod tests {
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
}
