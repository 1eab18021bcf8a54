//! Text that others wrote.

use std::fmt::{self, Display, Formatter, Write};

/// Of one value, as many characters as a terminal can bear.
const MAX_VALUE: usize = 2000;

/// Text of a hook's, which must not move the cursor or fill the screen.
pub(crate) struct Plain<'a>(pub(crate) &'a str);

impl Display for Plain<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for character in self.0.chars().take(MAX_VALUE) {
            if character.is_control() && character != '\t' {
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
    fn hooks_do_not_write_on_terminals() {
        assert_eq!(Plain("a\u{1b}[2Jb").to_string(), "a\\u{1b}[2Jb");
        let long = "x".repeat(MAX_VALUE + 1);
        assert!(Plain(&long).to_string().ends_with("x ... (2001 bytes)"));
    }
}
