//! Errors of names and values that XML cannot express.

use crate::{Element, escape, name};

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

impl Element {
    /// Checks that no value in the element, its children included, was set to a text with a character that XML does not
    /// allow. Methods that cannot fail, such as [`Element::set_attr`], write U+FFFD for such a character.
    ///
    /// ```
    /// # use domain_xml::Element;
    /// let mut disk = Element::new("disk").with_child(Element::new("serial").with_text("a\u{1}b"));
    /// let error = disk.check_values().unwrap_err().to_string();
    /// assert!(error.starts_with("the text of <serial> was set to a text with a character"), "{error}");
    /// disk.set("serial", "ab")?;
    /// assert_eq!(disk.check_values(), Ok(()));
    /// # Ok::<(), domain_xml::PathError>(())
    /// ```
    ///
    /// # Errors
    /// [`EditError::Replaced`] with the first such value.
    pub fn check_values(&self) -> Result<(), EditError> {
        let mut pending = vec![self];
        while let Some(element) = pending.pop() {
            if element.as_read().is_some() {
                continue;
            }
            if element.has_replaced_value
                && let Some((place, value)) = element.replaced_value()
            {
                return Err(EditError::Replaced {
                    element: element.tag_name().to_owned(),
                    place,
                    value,
                });
            }
            pending.extend(element.children().rev());
        }
        Ok(())
    }

    fn replaced_value(&self) -> Option<(String, String)> {
        let mut attributes = self.attrs();
        let attribute = attributes.find(|(_, value)| is_replaced(value));
        if let Some((name, value)) = attribute {
            return Some((format!("the attribute {name}"), value.into_owned()));
        }
        let text = self.text();
        is_replaced(&text).then(|| ("the text".to_owned(), text))
    }
}

fn is_replaced(value: &str) -> bool {
    value.contains(char::REPLACEMENT_CHARACTER)
}
