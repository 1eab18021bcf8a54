//! Escapes untrusted text for terminals.

use std::fmt::{self, Display, Formatter, Write};

use hook_host::is_printable;

/// The most characters of one value.
const MAX_VALUE: usize = 2000;

/// Text of a hook without control, invisible and bidirectional characters, and of limited length.
pub(crate) struct Plain<'a>(pub(crate) &'a str);

impl Display for Plain<'_> {
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
        assert_eq!(Plain("a\u{1b}[2Jb").to_string(), "a\\u{1b}[2Jb");
        let reversed = Plain("a\u{202e}b\u{200b}").to_string();
        assert_eq!(reversed, "a\\u{202e}b\\u{200b}");
        let long = "x".repeat(MAX_VALUE + 1);
        assert!(Plain(&long).to_string().ends_with("x ... (2001 bytes)"));
    }
}
