//! From tree to text, without recursion.

use crate::element::{Attribute, End, Node, is_blank};
use crate::{Document, Element, name};

/// The whole document.
pub(crate) fn document(document: &Document) -> String {
    let mut out = String::with_capacity(4096);
    out.push_str(&document.prolog);
    let missing = missing_declarations(&document.root);
    render(
        &document.root,
        Some(Layout::of(&document.root)),
        &missing,
        &mut out,
    );
    out.push_str(&document.epilog);
    out
}

/// One element, on its own.
pub(crate) fn element(element: &Element) -> String {
    let mut out = String::new();
    render(element, None, &[], &mut out);
    out
}

/// One element on one line, without the white space between its children: for reading.
pub(crate) fn compact(element: &Element) -> String {
    let mut out = String::new();
    let mut stack = Vec::new();
    open(element, None, &None, &[], &mut out, &mut stack);
    while let Some(frame) = stack.last_mut() {
        let node = frame.element.nodes.get(frame.next);
        frame.next += 1;
        match node {
            None => {
                close(frame, &None, &mut out);
                stack.pop();
            }
            Some(Node::Element(child)) => open(child, None, &None, &[], &mut out, &mut stack),
            Some(node) if node.is_layout() && frame.element.children().next().is_some() => {}
            Some(Node::Text(raw) | Node::CData(raw) | Node::Other(raw)) => out.push_str(raw),
        }
    }
    out
}

/// How the document lays its elements out.
struct Layout {
    /// `\n` or `\r\n`.
    line: &'static str,
    /// One level of indentation; none when the document is written without lines.
    unit: Option<String>,
    quote: char,
}

impl Layout {
    /// Taken from the white space before the root's first child.
    fn of(root: &Element) -> Layout {
        let quote = first_quote(root).unwrap_or('\'');
        let before_child = root.nodes.iter().find_map(|node| match node {
            Node::Text(raw) if is_blank(raw) => raw.rfind('\n').map(|n| (raw, n)),
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

fn first_quote(root: &Element) -> Option<char> {
    root.attributes.first().map(|attribute| attribute.quote)
}

/// An element whose start tag is written.
struct Frame<'a> {
    element: &'a Element,
    next: usize,
    /// Indentation of this element's own line.
    indent: Option<String>,
    /// Indentation of children that an edit added, once it is asked for.
    below: Option<Option<String>>,
    /// Whether white space must be written before the end tag.
    breaks: bool,
}

fn render(root: &Element, layout: Option<Layout>, missing: &[Missing<'_>], out: &mut String) {
    let mut stack = Vec::new();
    open(root, Some(String::new()), &layout, missing, out, &mut stack);
    while let Some(frame) = stack.last_mut() {
        let Some(node) = frame.element.nodes.get(frame.next) else {
            close(frame, &layout, out);
            stack.pop();
            continue;
        };
        frame.next += 1;
        match node {
            Node::Text(raw) | Node::CData(raw) | Node::Other(raw) => {
                out.push_str(raw);
                frame.breaks = false;
            }
            Node::Element(child) => {
                let indent = align(frame, child, &layout, out);
                open(child, indent, &layout, &[], out, &mut stack);
            }
        }
    }
}

/// Puts an element that an edit added on a line of its own, and gives its indentation.
fn align(
    frame: &mut Frame<'_>,
    child: &Element,
    layout: &Option<Layout>,
    out: &mut String,
) -> Option<String> {
    if !child.aligned {
        frame.breaks = false;
        return current_indent(out);
    }
    let layout = layout.as_ref()?;
    if frame.below.is_none() {
        frame.below = Some(children_indent(frame, layout));
    }
    let indent = frame.below.clone().flatten()?;
    out.push_str(layout.line);
    out.push_str(&indent);
    frame.breaks = true;
    Some(indent)
}

/// The indentation of an element's children; none when they share a line.
fn children_indent(frame: &Frame<'_>, layout: &Layout) -> Option<String> {
    let unit = layout.unit.as_ref()?;
    if has_own_text(frame.element) {
        return None;
    }
    match neighbour_indent(frame.element) {
        Neighbours::OnLines(indent) => Some(indent),
        Neighbours::OnOneLine => None,
        Neighbours::None => Some(format!("{}{unit}", frame.indent.as_deref()?)),
    }
}

/// The white space from the start of the line, when there is nothing else on it.
fn current_indent(out: &str) -> Option<String> {
    let before = out.trim_end_matches([' ', '\t']);
    (before.is_empty() || before.ends_with('\n')).then(|| out[before.len()..].to_owned())
}

fn has_own_text(element: &Element) -> bool {
    element.nodes.iter().any(|node| match node {
        Node::Text(raw) => !is_blank(raw),
        Node::CData(_) => true,
        Node::Element(_) | Node::Other(_) => false,
    })
}

/// How the children that were read are laid out.
enum Neighbours {
    None,
    OnOneLine,
    /// With the indentation of the first.
    OnLines(String),
}

fn neighbour_indent(element: &Element) -> Neighbours {
    let mut found = Neighbours::None;
    let mut before: Option<&Node> = None;
    for node in &element.nodes {
        if node.element().is_some_and(|child| !child.aligned) {
            found = Neighbours::OnOneLine;
            if let Some(Node::Text(raw)) = before
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

fn open<'a>(
    element: &'a Element,
    indent: Option<String>,
    layout: &Option<Layout>,
    missing: &[Missing<'_>],
    out: &mut String,
    stack: &mut Vec<Frame<'a>>,
) {
    out.push('<');
    out.push_str(&element.name);
    for attribute in &element.attributes {
        render_attribute(attribute, out);
    }
    let quote = layout.as_ref().map_or('\'', |layout| layout.quote);
    for (prefix, uri) in missing {
        out.push_str(&format!(" xmlns:{prefix}={quote}{uri}{quote}"));
    }
    out.push_str(&element.tail);
    if element.nodes.is_empty() && element.end == End::SelfClosing {
        out.push_str("/>");
    } else {
        out.push('>');
        stack.push(Frame {
            element,
            next: 0,
            indent,
            below: None,
            breaks: false,
        });
    }
}

fn render_attribute(attribute: &Attribute, out: &mut String) {
    out.push_str(&attribute.lead);
    out.push_str(&attribute.name);
    out.push_str(&attribute.equals);
    out.push(attribute.quote);
    out.push_str(&attribute.raw);
    out.push(attribute.quote);
}

fn close(frame: &Frame<'_>, layout: &Option<Layout>, out: &mut String) {
    if let (true, Some(layout), Some(indent)) = (frame.breaks, layout, &frame.indent) {
        out.push_str(layout.line);
        out.push_str(indent);
    }
    out.push_str("</");
    out.push_str(&frame.element.name);
    if let End::Tag(space) = &frame.element.end {
        out.push_str(space);
    }
    out.push('>');
}

/// A prefix and its namespace.
type Missing<'a> = (&'a str, &'static str);

/// Known prefixes that added elements use and nothing declares: the root must, for that is where
/// libvirt reads them.
fn missing_declarations(root: &Element) -> Vec<Missing<'_>> {
    let mut missing: Vec<Missing<'_>> = Vec::new();
    let mut pending = vec![root];
    while let Some(element) = pending.pop() {
        pending.extend(element.children());
        let prefix = name::split(&element.name).0;
        if !element.made || prefix.is_empty() || missing.iter().any(|(known, _)| *known == prefix) {
            continue;
        }
        if let Some(uri) = name::known_uri(prefix)
            && !declares(element, prefix)
            && !declares(root, prefix)
        {
            missing.push((prefix, uri));
        }
    }
    missing
}

fn declares(element: &Element, prefix: &str) -> bool {
    element
        .attributes
        .iter()
        .any(|attribute| name::declared_prefix(&attribute.name) == Some(prefix))
}
