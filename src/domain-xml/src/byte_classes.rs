//! Classes of bytes in markup. Most of a document costs one table look-up per byte.

/// Part of an ASCII name; the colon between prefix and local name is not.
pub(crate) const NAME: u8 = 1;
/// Start of an ASCII name.
pub(crate) const NAME_START: u8 = 1 << 1;
/// White space.
pub(crate) const SPACE: u8 = 1 << 2;
/// `=`
pub(crate) const EQUALS: u8 = 1 << 3;
/// `'` and `"`
pub(crate) const QUOTE: u8 = 1 << 4;
/// `<` and `&`
pub(crate) const MARKUP: u8 = 1 << 5;
/// `]`
pub(crate) const BRACKET: u8 = 1 << 6;
/// May begin a character that XML forbids: control characters, and the first byte of U+FFFE and U+FFFF. UTF-8 cannot
/// encode surrogates, the only others.
pub(crate) const MAY_BE_FORBIDDEN: u8 = 1 << 7;

const TABLE: [u8; 256] = table();

const fn table() -> [u8; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = match byte as u8 {
            b'A'..=b'Z' | b'a'..=b'z' | b'_' => NAME | NAME_START,
            b'0'..=b'9' | b'-' | b'.' => NAME,
            b' ' | b'\t' | b'\n' | b'\r' => SPACE,
            b'=' => EQUALS,
            b'\'' | b'"' => QUOTE,
            b'<' | b'&' => MARKUP,
            b']' => BRACKET,
            0..b' ' | 0xEF => MAY_BE_FORBIDDEN,
            _ => 0,
        };
        byte += 1;
    }
    table
}

pub(crate) fn is(byte: u8, classes: u8) -> bool {
    TABLE[usize::from(byte)] & classes != 0
}

/// The first index from `at` on whose byte is in one of the classes, or the end.
#[inline]
pub(crate) fn until(text: &[u8], at: usize, classes: u8) -> usize {
    let rest = text.get(at..).unwrap_or_default();
    at + rest
        .iter()
        .position(|byte| is(*byte, classes))
        .unwrap_or(rest.len())
}

/// The first index from `at` on whose byte is in none of the classes, or the end.
#[inline]
pub(crate) fn past(text: &[u8], at: usize, classes: u8) -> usize {
    let rest = text.get(at..).unwrap_or_default();
    at + rest
        .iter()
        .position(|byte| !is(*byte, classes))
        .unwrap_or(rest.len())
}

/// Whether the text is white space only.
pub(crate) fn is_blank(text: &str) -> bool {
    past(text.as_bytes(), 0, SPACE) == text.len()
}

/// The index of the first occurrence of these bytes, from `from` on.
pub(crate) fn find(text: &[u8], from: usize, wanted: &[u8]) -> Option<usize> {
    let mut windows = text.get(from..)?.windows(wanted.len());
    Some(from + windows.position(|at| at == wanted)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{escape, name};

    #[test]
    fn table_agrees_with_the_character_rules() {
        for byte in 0..=0x7F_u8 {
            let c = char::from(byte);
            assert_eq!(is(byte, MAY_BE_FORBIDDEN), !escape::is_char(c), "{c:?}");
            assert_eq!(
                is(byte, NAME_START),
                name::is_valid(&c.to_string()),
                "{c:?}"
            );
            assert_eq!(is(byte, NAME), name::is_valid(&format!("a{c}")), "{c:?}");
            assert_eq!(is(byte, SPACE), " \t\r\n".contains(c), "{c:?}");
        }
        for bad in ['\u{FFFE}', '\u{FFFF}'] {
            assert!(is(bad.to_string().as_bytes()[0], MAY_BE_FORBIDDEN) && !escape::is_char(bad));
        }
    }

    #[test]
    fn searches_end_at_the_end_of_the_text() {
        assert_eq!(until(b"ab<", 0, MARKUP), 2);
        assert_eq!(until(b"ab", 1, MARKUP), 2);
        assert_eq!(past(b" \n=", 0, SPACE), 2);
        assert_eq!(past(b"  ", 5, SPACE), 5);
        assert_eq!(find(b"-->-->", 1, b"-->"), Some(3));
        assert_eq!(find(b"-->", 4, b"-->"), None);
        assert!(is_blank("") && is_blank(" \r\n\t") && !is_blank(" x"));
    }
}
