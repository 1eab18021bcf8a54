//! Finds values with a character that XML does not allow, which edits have replaced by U+FFFD.

use crate::{EditError, Element};

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
