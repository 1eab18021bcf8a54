//! Reads XML elements into typed elements. Unknown attributes and elements are ignored.

use domain_xml::Element;

use super::Scalar;

/// Why an XML document cannot be read into a typed element.
#[derive(Debug, thiserror::Error)]
pub enum ParseError {
    /// The document is not well-formed, or exceeds a size limit.
    #[error("not a readable XML document: {0}")]
    Xml(#[from] domain_xml::ParseError),
    /// The root element has another name.
    #[error("the root element is <{found}>, expected <{expected}>")]
    Root {
        /// The root's name.
        found: String,
        /// The expected name.
        expected: &'static str,
    },
    /// A value has the wrong type, such as text instead of a number.
    #[error("<{element}>: {location} is {value:?}, which is not a valid {wanted}")]
    Value {
        /// The element that holds the value.
        element: String,
        /// The attribute, or `text`.
        location: String,
        /// The value, cut at 100 characters.
        value: String,
        /// The expected type.
        wanted: &'static str,
    },
}

/// An element that can be read from XML.
pub trait ReadElement: Default {
    /// Sets the fields that the XML element contains.
    ///
    /// # Errors
    /// [`ParseError::Value`] for a value of the wrong type.
    fn read(&mut self, element: &Element) -> Result<(), ParseError>;
}

/// The value of a child element: a typed element (also optional or repeated), or a scalar as the element's text.
pub trait ReadChild {
    /// Reads one child element. It is called once for each child element of the name.
    ///
    /// # Errors
    /// [`ParseError::Value`] for a value of the wrong type.
    fn read_child(&mut self, element: &Element) -> Result<(), ParseError>;
}

macro_rules! text_elements {
    ($($value:ty)*) => {$(
        impl ReadChild for $value {
            fn read_child(&mut self, element: &Element) -> Result<(), ParseError> {
                read_text(element, self)
            }
        }
    )*};
}
text_elements!(String bool u32 u64 i32 i64);

impl<T: ReadChild + Default> ReadChild for Option<T> {
    fn read_child(&mut self, element: &Element) -> Result<(), ParseError> {
        self.get_or_insert_with(T::default).read_child(element)
    }
}

impl<T: ReadChild + Default> ReadChild for Vec<T> {
    fn read_child(&mut self, element: &Element) -> Result<(), ParseError> {
        let mut item = T::default();
        item.read_child(element)?;
        self.push(item);
        Ok(())
    }
}

impl<T: ReadChild> ReadChild for Box<T> {
    fn read_child(&mut self, element: &Element) -> Result<(), ParseError> {
        (**self).read_child(element)
    }
}

/// The element's name without a namespace prefix.
pub fn local_name(element: &Element) -> &str {
    let name = element.tag_name();
    name.rsplit_once(':').map_or(name, |(_, local)| local)
}

/// Reads an attribute. Names with a prefix such as `xmlns:qemu` are ignored, as by KubeVirt's launcher.
///
/// # Errors
/// [`ParseError::Value`] for a value of the wrong type.
pub fn read_attr<T: Scalar>(element: &Element, name: &str, into: &mut T) -> Result<(), ParseError> {
    if name.contains(':') {
        return Ok(());
    }
    let Some(text) = element.attr(name) else {
        return Ok(());
    };
    *into = T::from_text(&text).ok_or_else(|| value_error::<T>(element, name, &text))?;
    Ok(())
}

/// Reads an element's text.
///
/// # Errors
/// [`ParseError::Value`] for a value of the wrong type.
pub fn read_text<T: Scalar>(element: &Element, into: &mut T) -> Result<(), ParseError> {
    let text = element.text();
    *into = T::from_text(&text).ok_or_else(|| value_error::<T>(element, "text", &text))?;
    Ok(())
}

fn value_error<T>(element: &Element, location: &str, value: &str) -> ParseError {
    ParseError::Value {
        element: element.tag_name().to_owned(),
        location: location.to_owned(),
        value: value.chars().take(100).collect(),
        wanted: std::any::type_name::<T>(),
    }
}
