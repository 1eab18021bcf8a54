//! Writes typed elements as Go's encoder does with tabs: sidecars and shell scripts edit the text, for example by replacing
//! `<baseBoard></baseBoard>`.

use super::Scalar;

/// Writes the text of a document, indented with tabs.
#[derive(Default)]
pub struct XmlWriter {
    out: String,
    depth: usize,
    /// Whether the start tag of the current element still lacks its `>`.
    is_tag_open: bool,
    /// Whether the current element contains text. Its end tag is then written on the same line.
    has_text: bool,
}

impl XmlWriter {
    /// A writer of an empty document.
    pub fn new() -> Self {
        Self {
            out: String::with_capacity(8 * 1024),
            ..Self::default()
        }
    }

    /// Opens an element.
    pub fn start(&mut self, name: &str) {
        self.close_tag();
        self.new_line();
        self.out.push('<');
        self.out.push_str(name);
        self.depth += 1;
        self.is_tag_open = true;
        self.has_text = false;
    }

    /// Writes an attribute of the element that was opened last.
    pub fn attr(&mut self, name: &str, value: &str) {
        self.out.push(' ');
        self.out.push_str(name);
        self.out.push_str("=\"");
        escape(&mut self.out, value);
        self.out.push('"');
    }

    /// Writes text into the current element.
    pub fn text(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        self.close_tag();
        escape(&mut self.out, text);
        self.has_text = true;
    }

    /// Closes the current element, whose name is `name`.
    pub fn end(&mut self, name: &str) {
        self.depth -= 1;
        let is_empty = self.is_tag_open;
        self.close_tag();
        if !is_empty && !self.has_text {
            self.new_line();
        }
        self.out.push_str("</");
        self.out.push_str(name);
        self.out.push('>');
        self.has_text = false;
    }

    /// The text of the document.
    pub fn finish(self) -> String {
        self.out
    }

    fn close_tag(&mut self) {
        if self.is_tag_open {
            self.out.push('>');
            self.is_tag_open = false;
        }
    }

    fn new_line(&mut self) {
        if !self.out.is_empty() {
            self.out.push('\n');
        }
        for _ in 0..self.depth {
            self.out.push('\t');
        }
    }
}

/// Escapes text for elements and double-quoted attributes, as Go does. White space that a parser would normalise
/// becomes a character reference; characters that XML does not allow become U+FFFD.
fn escape(out: &mut String, text: &str) {
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&#34;"),
            '\'' => out.push_str("&#39;"),
            '\t' => out.push_str("&#x9;"),
            '\n' => out.push_str("&#xA;"),
            '\r' => out.push_str("&#xD;"),
            '\0'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
}

/// An element with attributes and content.
pub trait WriteElement {
    /// Writes the attributes.
    fn write_attrs(&self, writer: &mut XmlWriter);
    /// Writes the children and the text.
    fn write_content(&self, writer: &mut XmlWriter);

    /// Writes the whole element.
    fn write(&self, name: &str, writer: &mut XmlWriter) {
        writer.start(name);
        self.write_attrs(writer);
        self.write_content(writer);
        writer.end(name);
    }
}

/// The value of a child element: a typed element (also optional or repeated), or a scalar as the element's text.
pub trait WriteChild {
    /// Writes the child element. With `omit_empty`, a scalar with the zero value is left out.
    fn write_child(&self, name: &str, omit_empty: bool, writer: &mut XmlWriter);
}

fn write_text_element<T: Scalar>(value: &T, name: &str, omit_empty: bool, writer: &mut XmlWriter) {
    if omit_empty && value.is_zero() {
        return;
    }
    if let Some(text) = value.text() {
        writer.start(name);
        writer.text(&text);
        writer.end(name);
    }
}

macro_rules! text_elements {
    ($($value:ty)*) => {$(
        impl WriteChild for $value {
            fn write_child(&self, name: &str, omit_empty: bool, writer: &mut XmlWriter) {
                write_text_element(self, name, omit_empty, writer);
            }
        }
    )*};
}
text_elements!(String bool u32 u64 i32 i64);

impl<T: WriteChild> WriteChild for Option<T> {
    fn write_child(&self, name: &str, _omit_empty: bool, writer: &mut XmlWriter) {
        if let Some(child) = self {
            child.write_child(name, false, writer);
        }
    }
}

impl<T: WriteChild> WriteChild for Vec<T> {
    fn write_child(&self, name: &str, _omit_empty: bool, writer: &mut XmlWriter) {
        for child in self {
            child.write_child(name, false, writer);
        }
    }
}

impl<T: WriteChild> WriteChild for Box<T> {
    fn write_child(&self, name: &str, omit_empty: bool, writer: &mut XmlWriter) {
        (**self).write_child(name, omit_empty, writer);
    }
}
