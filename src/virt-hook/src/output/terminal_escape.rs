//! Escapes untrusted text for terminals.

use std::fmt::{self, Display, Formatter, Write};

use hook_host::is_printable;

/// Maximum number of characters of a value that are shown.
const MAX_VALUE: usize = 2000;

/// Displays untrusted text with control, invisible and bidirectional characters escaped, and cut off at [`MAX_VALUE`].
pub(crate) struct TerminalEscaped<'a>(pub(crate) &'a str);

impl Display for TerminalEscaped<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for character in self.0.chars().take(MAX_VALUE) {
            if !is_printable(character) && character != '\t' {
                write!(f, "{}", character.escape_default())?;
            } else {
                f.write_char(character)?;
            }
        }
        if self.0.chars().nth(MAX_VALUE).is_some() {
            write!(f, " ... ({} bytes)", self.0.len())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(TerminalEscaped("a\u{1b}[2Jb").to_string(), "a\\u{1b}[2Jb");
        let reversed = TerminalEscaped("a\u{202e}b\u{200b}").to_string();
        assert_eq!(reversed, "a\\u{202e}b\\u{200b}");
        let long = "x".repeat(MAX_VALUE + 1);
        assert!(
            TerminalEscaped(&long)
                .to_string()
                .ends_with("x ... (2001 bytes)")
        );
    }

    #[test]
    fn escaped_json_is_the_same_document() {
        let text = "a\u{9b}31m \u{85}\u{2028}\u{202e}\u{e0041} größer\n\u{1b}\u{7f}";
        let document = serde_json::json!({ text: [text] });
        let escaped = hook_host::escape_unprintable_in_json(&format!("{document:#}"));
        assert!(escaped.chars().all(|c| c == '\n' || is_printable(c)));
        let read: serde_json::Value = serde_json::from_str(&escaped).unwrap();
        assert_eq!(read, document);
    }
}
