//! Escapes and unescapes character data.

use std::borrow::Cow;

/// Whether XML 1.0 allows this character.
pub(crate) fn is_char(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r' | ' '..='\u{D7FF}' | '\u{E000}'..='\u{FFFD}' | '\u{10000}'..)
}

/// Plain text as character data. Characters that XML does not allow become U+FFFD.
pub(crate) fn text(plain: &str) -> String {
    escape(plain, None)
}

/// Plain text as an attribute value between these quotes.
pub(crate) fn attribute(plain: &str, quote: &str) -> String {
    escape(plain, quote.chars().next())
}

fn escape(plain: &str, quote: Option<char>) -> String {
    let mut out = String::with_capacity(plain.len());
    for c in plain.chars() {
        match entity(c, quote) {
            Some(entity) => out.push_str(entity),
            None if is_char(c) => out.push(c),
            None => out.push(char::REPLACEMENT_CHARACTER),
        }
    }
    out
}

/// The reference that a character needs in an attribute with these quotes, or in text.
fn entity(c: char, quote: Option<char>) -> Option<&'static str> {
    match (c, quote) {
        ('&', _) => Some("&amp;"),
        ('<', _) => Some("&lt;"),
        ('>', _) => Some("&gt;"),
        ('\r', _) => Some("&#13;"),
        ('\t', Some(_)) => Some("&#9;"),
        ('\n', Some(_)) => Some("&#10;"),
        ('\'', Some('\'')) => Some("&apos;"),
        ('"', Some('"')) => Some("&quot;"),
        _ => None,
    }
}

/// Character data as plain text; line ends become `\n`, as XML requires.
pub(crate) fn plain_text(raw: &str) -> Cow<'_, str> {
    if raw.bytes().any(|byte| matches!(byte, b'&' | b'\r')) {
        Cow::Owned(expand(raw, false))
    } else {
        Cow::Borrowed(raw)
    }
}

/// The text of a CDATA section, whose line ends are normalised like all others.
pub(crate) fn line_ends(raw: &str) -> Cow<'_, str> {
    if !raw.contains('\r') {
        return Cow::Borrowed(raw);
    }
    let mut out = String::with_capacity(raw.len());
    for (n, line) in raw.split('\r').enumerate() {
        if n > 0 {
            out.push('\n');
        }
        out.push_str(line.strip_prefix('\n').filter(|_| n > 0).unwrap_or(line));
    }
    Cow::Owned(out)
}

/// An attribute value as plain text; literal white space becomes a space, as XML requires.
pub(crate) fn plain_attribute(raw: &str) -> Cow<'_, str> {
    if raw
        .bytes()
        .any(|byte| matches!(byte, b'&' | b'\r' | b'\n' | b'\t'))
    {
        Cow::Owned(expand(raw, true))
    } else {
        Cow::Borrowed(raw)
    }
}

fn expand(raw: &str, attribute: bool) -> String {
    let mut out = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(at) = rest.find(['&', '\r', '\n', '\t']) {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let taken = if rest.starts_with('&') {
            expand_reference(rest, &mut out)
        } else {
            let taken = if rest.starts_with("\r\n") { 2 } else { 1 };
            let tab = rest.starts_with('\t');
            out.push(if attribute {
                ' '
            } else if tab {
                '\t'
            } else {
                '\n'
            });
            taken
        };
        rest = &rest[taken..];
    }
    out.push_str(rest);
    out
}

fn expand_reference(rest: &str, out: &mut String) -> usize {
    let Some(end) = rest.find(';') else {
        out.push('&');
        return 1;
    };
    match resolve(&rest[1..end]) {
        Some(c) => out.push(c),
        None => out.push_str(&rest[..=end]),
    }
    end + 1
}

/// The character of `&reference;`. Without a DTD there are no others.
pub(crate) fn resolve(reference: &str) -> Option<char> {
    let code = match reference {
        "lt" => return Some('<'),
        "gt" => return Some('>'),
        "amp" => return Some('&'),
        "quot" => return Some('"'),
        "apos" => return Some('\''),
        _ => reference.strip_prefix('#')?,
    };
    let (digits, radix) = code.strip_prefix('x').map_or((code, 10), |hex| (hex, 16));
    if !digits.starts_with(|c: char| c.is_digit(radix)) {
        return None;
    }
    char::from_u32(u32::from_str_radix(digits, radix).ok()?).filter(|c| is_char(*c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_survives_escaping_and_unescaping() {
        for plain in ["", "a<b>&\"'", "tab\tline\nreturn\r", "\u{1F980}", "]]>"] {
            assert_eq!(plain_text(&text(plain)), plain);
            assert_eq!(plain_attribute(&attribute(plain, "\"")), plain);
            assert_eq!(plain_attribute(&attribute(plain, "'")), plain);
        }
    }

    #[test]
    fn forbidden_characters_are_replaced() {
        assert_eq!(text("a\u{0}b"), "a\u{FFFD}b");
    }

    #[test]
    fn white_space_is_normalised_as_xml_requires() {
        assert_eq!(plain_attribute("a\r\nb\tc"), "a b c");
        assert_eq!(plain_text("a\r\nb\rc\td"), "a\nb\nc\td");
        assert_eq!(line_ends("\na\r\nb\r\rc&amp;\n"), "\na\nb\n\nc&amp;\n");
        assert_eq!(plain_attribute("a&#10;b"), "a\nb");
    }

    #[test]
    fn undefined_references_are_not_resolved() {
        assert_eq!(resolve("#x41"), Some('A'));
        for bad in ["nbsp", "#0", "#x110000", "#-1", "#+65", "#", "", "#xD800"] {
            assert_eq!(resolve(bad), None, "{bad}");
        }
    }
}
