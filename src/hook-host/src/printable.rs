//! Text that came from a module, a sidecar or a virtual machine's description, made safe to print.
//!
//! A terminal obeys escape sequences, a log file is read by lines, and bidirectional controls show text in another
//! order than it has. So such characters are printed as escapes, and long text is cut.

use std::fmt::Write;

/// The most bytes of a message in errors and log lines.
pub(crate) const MAX_MESSAGE: usize = 4096;

/// The text on one line without control and format characters, at most `limit` bytes and a note of what is left out.
#[must_use]
pub fn printable(text: &str, limit: usize) -> String {
    let mut out = String::with_capacity(text.len().min(limit));
    for (at, c) in text.char_indices() {
        if out.len() >= limit {
            // Writing to a string cannot fail.
            let _ = write!(out, " ... ({} more bytes)", text.len() - at);
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

/// Whether a character prints as itself: no control, no line or paragraph separator, nothing invisible, nothing that
/// changes the direction of text.
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

/// Reads bytes as UTF-8. The error says what they are instead.
pub(crate) fn utf8(bytes: Vec<u8>) -> Result<String, String> {
    let utf16 = bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]);
    let wide = bytes.starts_with(b"<\0") || bytes.starts_with(b"\0<");
    if utf16 || wide {
        return Err("it is UTF-16, and only UTF-8 is accepted".to_owned());
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        format!("it is not UTF-8 text: byte {at} is invalid")
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn what_terminals_obey_is_escaped() {
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
    fn error_contains_the_name_of_another_encoding() {
        assert_eq!(utf8(b"<a/>".to_vec()).unwrap(), "<a/>");
        let wide: Vec<u8> = "<a/>".encode_utf16().flat_map(u16::to_le_bytes).collect();
        assert!(utf8(wide).unwrap_err().contains("UTF-16"));
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
