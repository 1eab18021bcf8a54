//! Renders a tree as text, without recursion.

use crate::byte_classes::is_blank;
use crate::content_node::Node;
use crate::source_text::{Origin, Raw};
use crate::{Element, name};

/// Extra capacity for the edits of a document that was read.
const EDIT_CAPACITY: usize = 1024;

/// A whole document.
pub(crate) fn document(prolog: &Raw, root: &Element, epilog: &Raw) -> String {
    let read = root.origin.as_ref().map_or("", Origin::text);
    let mut out = String::with_capacity(read.len() + EDIT_CAPACITY);
    out.push_str(prolog.as_str());
    match root.as_read() {
        Some(text) => out.push_str(text),
        None => {
            let layout = Layout::of(root);
            let missing = missing_declarations(root, layout.quote);
            render(root, Some(&layout), &missing, &mut out);
        }
    }
    out.push_str(epilog.as_str());
    out
}

/// One element.
pub(crate) fn element(element: &Element) -> String {
    let mut out = String::new();
    render(element, None, "", &mut out);
    out
}

/// One element on one line, without white space between its children, for messages.
pub(crate) fn compact(element: &Element) -> String {
    let mut out = String::new();
    let mut open = Vec::new();
    if open_tag(element, "", &mut out) {
        open.push((element, element.nodes().iter()));
    }
    while let Some((element, rest)) = open.last_mut() {
        match rest.next() {
            None => {
                end_tag(element, &mut out);
                open.pop();
            }
            Some(Node::Element(child)) => {
                if open_tag(child, "", &mut out) {
                    open.push((child, child.nodes().iter()));
                }
            }
            Some(node) if node.is_layout() && element.children().next().is_some() => {}
            Some(Node::Text(raw) | Node::CData(raw) | Node::Other(raw)) => {
                out.push_str(raw.as_str());
            }
        }
    }
    out
}

/// An element whose start tag was written.
struct Frame<'a> {
    element: &'a Element,
    rest: std::slice::Iter<'a, Node>,
    /// Start of its start tag in the output; `None` if the element shares a line.
    start: Option<usize>,
    /// Indentation of inserted children, once it was computed.
    below: Option<Option<String>>,
    /// Whether the end tag needs white space before it.
    breaks: bool,
}

impl<'a> Frame<'a> {
    fn new(element: &'a Element, start: Option<usize>) -> Frame<'a> {
        Frame {
            element,
            rest: element.nodes().iter(),
            start,
            below: None,
            breaks: false,
        }
    }

    /// The indentation of the element's line, if the element begins it.
    fn indent(&self, out: &str) -> Option<String> {
        let before = &out[..self.start?];
        let line = before.trim_end_matches([' ', '\t']);
        let begins = line.is_empty() || line.ends_with('\n');
        begins.then(|| before[line.len()..].to_owned())
    }
}

fn render(root: &Element, layout: Option<&Layout>, declarations: &str, out: &mut String) {
    let mut stack = Vec::new();
    if start_tag(root, declarations, out) {
        stack.push(Frame::new(root, Some(0)));
    }
    while let Some(frame) = stack.last_mut() {
        match frame.rest.next() {
            None => {
                close(frame, layout, out);
                stack.pop();
            }
            Some(Node::Element(child)) => {
                let start = align(frame, child, layout, out);
                if start_tag(child, "", out) {
                    stack.push(Frame::new(child, start));
                }
            }
            Some(Node::Text(raw) | Node::CData(raw) | Node::Other(raw)) => {
                out.push_str(raw.as_str());
                frame.breaks = false;
            }
        }
    }
}

/// Starts a new line for an inserted element, and returns the element's start.
fn align(
    frame: &mut Frame<'_>,
    child: &Element,
    layout: Option<&Layout>,
    out: &mut String,
) -> Option<usize> {
    if !child.aligned {
        frame.breaks = false;
        return Some(out.len());
    }
    let layout = layout?;
    if frame.below.is_none() {
        frame.below = Some(children_indent(frame, layout, out));
    }
    let indent = frame.below.as_ref()?.as_ref()?;
    out.push_str(layout.line);
    out.push_str(indent);
    frame.breaks = true;
    Some(out.len())
}

/// The indentation of an element's children; `None` if they share a line.
fn children_indent(frame: &Frame<'_>, layout: &Layout, out: &str) -> Option<String> {
    let unit = layout.unit.as_ref()?;
    if frame.element.has_text() {
        return None;
    }
    match neighbour_indent(frame.element) {
        Neighbours::OnLines(indent) => Some(indent),
        Neighbours::OnOneLine => None,
        Neighbours::None => Some(frame.indent(out)? + unit),
    }
}

/// Writes the start tag, and returns whether content follows. An unedited element is copied whole, and an empty one
/// has no content.
fn start_tag(element: &Element, declarations: &str, out: &mut String) -> bool {
    if let Some(text) = element.as_read() {
        out.push_str(text);
        return false;
    }
    open_tag(element, declarations, out)
}

/// Writes the start tag, and returns whether there is an end tag.
fn open_tag(element: &Element, declarations: &str, out: &mut String) -> bool {
    let tag = element.tag();
    let written = tag.trim_end_matches([' ', '\t', '\n', '\r']);
    let has_end = !element.nodes().is_empty() || has_end_tag(element);
    let close = if has_end { ">" } else { "/>" };
    for part in ["<", written, declarations, &tag[written.len()..], close] {
        out.push_str(part);
    }
    has_end
}

fn has_end_tag(element: &Element) -> bool {
    element.expanded || element.origin.as_ref().is_some_and(Origin::has_end_tag)
}

fn close(frame: &Frame<'_>, layout: Option<&Layout>, out: &mut String) {
    if let (true, Some(layout), Some(indent)) = (frame.breaks, layout, frame.indent(out)) {
        out.push_str(layout.line);
        out.push_str(&indent);
    }
    end_tag(frame.element, out);
}

fn end_tag(element: &Element, out: &mut String) {
    let space = element.origin.as_ref().map_or("", Origin::end_space);
    for part in ["</", element.tag_name(), space, ">"] {
        out.push_str(part);
    }
}

/// The document's line ends and indentation.
struct Layout {
    /// `\n` or `\r\n`.
    line: &'static str,
    /// One level of indentation; `None` if the document is on one line.
    unit: Option<String>,
    quote: &'static str,
}

impl Layout {
    /// Derived from the white space before the root's first child.
    fn of(root: &Element) -> Layout {
        let quote = first_quote(root);
        let before_child = root.nodes().iter().find_map(|node| match node {
            Node::Text(raw) if node.is_layout() => {
                let raw = raw.as_str();
                raw.rfind('\n').map(|n| (raw, n))
            }
            _ => None,
        });
        let Some((raw, n)) = before_child else {
            return Layout {
                line: "\n",
                unit: None,
                quote,
            };
        };
        let line = if raw[..n].ends_with('\r') {
            "\r\n"
        } else {
            "\n"
        };
        let unit = Some(raw[n + 1..].to_owned()).filter(|unit| !unit.is_empty());
        Layout {
            line,
            unit: Some(unit.unwrap_or_else(|| "  ".to_owned())),
            quote,
        }
    }
}

fn first_quote(root: &Element) -> &'static str {
    let tag = root.tag().as_bytes();
    let first = root.attributes().next();
    match first.and_then(|attribute| tag.get(attribute.to - 1)) {
        Some(b'"') => "\"",
        _ => "'",
    }
}

/// The layout of the children that were read.
enum Neighbours {
    None,
    OnOneLine,
    /// On lines, with the indentation of the first child.
    OnLines(String),
}

fn neighbour_indent(element: &Element) -> Neighbours {
    let mut found = Neighbours::None;
    let mut before: Option<&Node> = None;
    for node in element.nodes() {
        if node.element().is_some_and(|child| !child.aligned) {
            found = Neighbours::OnOneLine;
            if let Some(Node::Text(raw)) = before
                && let raw = raw.as_str()
                && is_blank(raw)
                && let Some(n) = raw.rfind('\n')
            {
                return Neighbours::OnLines(raw[n + 1..].to_owned());
            }
        }
        before = Some(node);
    }
    found
}

/// Declarations of known prefixes that inserted elements use and nothing declares. They go to the root, where libvirt
/// reads them.
fn missing_declarations(root: &Element, quote: &str) -> String {
    let mut missing: Vec<&str> = Vec::new();
    let mut declarations = String::new();
    let mut pending = vec![root];
    while let Some(element) = pending.pop() {
        if element.as_read().is_some() {
            continue;
        }
        pending.extend(element.children());
        let prefix = name::split(element.tag_name()).0;
        if !element.is_made() || prefix.is_empty() || missing.contains(&prefix) {
            continue;
        }
        if let Some(uri) = name::known_uri(prefix)
            && !declares(element, prefix)
            && !declares(root, prefix)
        {
            missing.push(prefix);
            for part in [" xmlns:", prefix, "=", quote, uri, quote] {
                declarations.push_str(part);
            }
        }
    }
    declarations
}

fn declares(element: &Element, prefix: &str) -> bool {
    element
        .declarations()
        .any(|(declared, _)| declared == prefix)
}
