//! Makes untrusted text safe to print, such as text from a module, a sidecar or a VMI.
//!
//! A terminal obeys escape sequences, a log file is read by lines, and bidirectional controls show text in another
//! order than its bytes have. So such characters are printed as escapes, and long text is cut.

use std::fmt::Write;
use std::str::Utf8Error;

/// Maximum length of a message in errors and log lines, in bytes.
pub(crate) const MAX_MESSAGE: usize = 4096;

/// Returns the text on one line without control and format characters. Of a longer text, about `limit` bytes are
/// followed by the number of bytes that are left out.
#[must_use]
pub fn printable(text: &str, limit: usize) -> String {
    let mut out = String::with_capacity(text.len().min(limit));
    for (index, c) in text.char_indices() {
        if out.len() >= limit {
            // Writing to a string cannot fail.
            let _ = write!(out, " ... ({} more bytes)", text.len() - index);
            break;
        }
        if is_printable(c) {
            out.push(c);
        } else {
            out.extend(c.escape_default());
        }
    }
    out
}

/// Whether a character is printed unescaped. Control characters, line and paragraph separators, invisible characters
/// and those that change the direction of text are not. The same as `is_printable` of the SDK's
/// `description/validation.rs`, which cannot depend on this crate.
#[must_use]
pub fn is_printable(c: char) -> bool {
    !c.is_control()
        && !matches!(
            c,
            '\u{ad}'
                | '\u{61c}'
                | '\u{180e}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e007f}'
        )
}

/// A text of a module or policy has unprintable characters.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} {text:?} has unprintable characters")]
pub(crate) struct UnprintableText {
    what: &'static str,
    text: String,
}

/// Refuses unprintable characters in a text of a module or policy. Such texts are printed as a policy that operators
/// copy, and some unprintable characters end a line in YAML.
pub(crate) fn check_printable(what: &'static str, text: &str) -> Result<(), UnprintableText> {
    match text.chars().all(is_printable) {
        true => Ok(()),
        false => Err(UnprintableText {
            what,
            text: text.to_owned(),
        }),
    }
}

/// Replaces unprintable characters in JSON by escapes; the document stays the same to its readers. Ends of lines stay, which
/// JSON has only between its values.
#[must_use]
pub fn escape_unprintable_in_json(json: &str) -> String {
    let mut escaped = String::with_capacity(json.len());
    for character in json.chars() {
        if is_printable(character) || character == '\n' {
            escaped.push(character);
            continue;
        }
        for unit in character.encode_utf16(&mut [0; 2]) {
            escaped += &format!("\\u{unit:04x}");
        }
    }
    escaped
}

/// Why UTF-16 is refused.
pub(crate) const IS_UTF16: &str = "it is UTF-16, and only UTF-8 is accepted";

/// Decodes UTF-8. The error says whether the bytes are UTF-16, or where they are invalid.
pub(crate) fn utf8(bytes: Vec<u8>) -> Result<String, String> {
    let has_utf16_mark = bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]);
    if has_utf16_mark || is_utf16_xml(&bytes) {
        return Err(IS_UTF16.to_owned());
    }
    String::from_utf8(bytes).map_err(|error| not_utf8(error.utf8_error()))
}

/// Whether bytes are XML in UTF-16 without its mark. They are UTF-8, too, with characters that XML forbids.
pub(crate) fn is_utf16_xml(bytes: &[u8]) -> bool {
    bytes.starts_with(b"<\0") || bytes.starts_with(b"\0<")
}

/// Why text is refused that is not UTF-8.
pub(crate) fn not_utf8(error: Utf8Error) -> String {
    format!(
        "it is not UTF-8 text: byte {} is invalid",
        error.valid_up_to()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_and_direction_characters_are_escaped() {
        for (text, printed) in [
            ("plain, größer, 日本", "plain, größer, 日本"),
            ("\u{1b}[2Jgone", "\\u{1b}[2Jgone"),
            ("\u{1b}]0;title\u{7}", "\\u{1b}]0;title\\u{7}"),
            ("\u{9b}31m", "\\u{9b}31m"),
            ("over\rwritten", "over\\rwritten"),
            ("two\nlines\tand", "two\\nlines\\tand"),
            (
                "a\u{202e}b\u{2066}c\u{200f}d",
                "a\\u{202e}b\\u{2066}c\\u{200f}d",
            ),
            (
                "\u{2028}\u{feff}\u{200b}\u{7f}\0",
                "\\u{2028}\\u{feff}\\u{200b}\\u{7f}\\u{0}",
            ),
        ] {
            assert_eq!(printable(text, 100), printed);
        }
    }

    #[test]
    fn long_text_is_cut_between_characters() {
        assert_eq!(printable("abcdef", 6), "abcdef");
        assert_eq!(printable("abcdef", 4), "abcd ... (2 more bytes)");
        assert_eq!(printable("ääää", 3), "ää ... (4 more bytes)");
    }

    #[test]
    fn error_names_utf16_or_the_first_invalid_byte() {
        assert_eq!(utf8(b"<a/>".to_vec()).unwrap(), "<a/>");
        let utf16: Vec<u8> = "<a/>".encode_utf16().flat_map(u16::to_le_bytes).collect();
        assert!(utf8(utf16).unwrap_err().contains("UTF-16"));
        assert!(
            utf8(vec![0xff, 0xfe, b'<', 0])
                .unwrap_err()
                .contains("UTF-16")
        );
        assert!(
            utf8(b"<a>\xff</a>".to_vec())
                .unwrap_err()
                .contains("byte 3")
        );
    }
}
