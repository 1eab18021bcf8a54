//! Elements from XML text.

use crate::{Document, Element, ParseError};

impl Element {
    /// The element that an XML text describes. It is laid out like its new siblings when it is inserted; comments are
    /// left out.
    ///
    /// ```
    /// # use domain_xml::{Document, Element};
    /// let mut domain = Document::parse("<domain>\n  <devices>\n  </devices>\n</domain>")?;
    /// let watchdog = Element::parse("<watchdog model='itco' action='reset'><alias name='ua-w'/></watchdog>")?;
    /// domain.ensure("devices")?.append(watchdog);
    /// assert_eq!(
    ///     domain.render(),
    ///     "<domain>\n  <devices>\n    <watchdog model='itco' action='reset'>\n      \
    ///      <alias name='ua-w'/>\n    </watchdog>\n  </devices>\n</domain>"
    /// );
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If the text is not one well-formed element; with line and column.
    pub fn parse(xml: &str) -> Result<Element, ParseError> {
        Ok(copied(Document::parse(xml)?.root()))
    }
}

/// The same element without the layout of its text. The depth of a parsed tree is limited.
fn copied(read: &Element) -> Element {
    let mut element = Element::named(read.tag_name());
    for (name, value) in read.attrs() {
        element.put_attr(name, &value);
    }
    let text = read.text_without_layout();
    if !text.is_empty() {
        element.set_text(text);
    }
    for child in read.children() {
        element.append(copied(child));
    }
    element
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parsed_literal_keeps_its_content() {
        for xml in [
            "<a/>",
            "<a b='1' c='&lt;&amp;'/>",
            "<a><b>text &amp; more</b><b/></a>",
            "<q:a xmlns:q='urn:q' q:b='1'><q:c/></q:a>",
        ] {
            let element = Element::parse(xml).unwrap();
            let repeated = Document::parse(&element.render()).unwrap();
            let before = Document::parse(xml).unwrap();
            assert_eq!(
                crate::host::diff(&before, &repeated),
                [],
                "{}",
                element.render()
            );
        }
    }

    #[test]
    fn other_text_is_refused_with_its_place() {
        for xml in ["", "text", "<a>", "<a/><b/>", "<a b=1/>"] {
            let error = Element::parse(xml).unwrap_err().to_string();
            assert!(error.contains("line 1"), "{xml}: {error}");
        }
    }
}
