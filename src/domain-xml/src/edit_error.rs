//! Errors of names and values that XML cannot express.

use crate::{escape, name};

/// A name or value that XML cannot express.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EditError {
    /// The text is not a name of an element or attribute.
    #[error("{name:?} is not a name of an element or attribute")]
    #[non_exhaustive]
    Name {
        /// The text.
        name: String,
    },
    /// The value has a character that XML does not allow, such as U+0001.
    #[error("the value {value:?} has the character {character:?}, which XML does not allow")]
    #[non_exhaustive]
    Character {
        /// The value.
        value: String,
        /// The first such character.
        character: char,
    },
    /// A value was set with a character that XML does not allow, and has U+FFFD in its place.
    #[error(
        "{place} of <{element}> was set to a text with a character that XML does not allow: it is now {value:?}"
    )]
    #[non_exhaustive]
    Replaced {
        /// The name of the element.
        element: String,
        /// `the attribute NAME`, or `the text`.
        place: String,
        /// The value in the document.
        value: String,
    },
}

pub(crate) fn check_name(name: &str) -> Result<(), EditError> {
    match name::is_valid(name) {
        true => Ok(()),
        false => Err(EditError::Name {
            name: name.to_owned(),
        }),
    }
}

pub(crate) fn check_value(value: &str) -> Result<(), EditError> {
    match value.chars().find(|c| !escape::is_char(*c)) {
        None => Ok(()),
        Some(character) => Err(EditError::Character {
            value: value.to_owned(),
            character,
        }),
    }
}
