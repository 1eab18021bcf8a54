//! Escapes in JSON strings.

/// The text between quotes with its escapes replaced; `None` if one is invalid.
pub(super) fn unescaped(text: &str) -> Option<String> {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\\') {
        plain.push_str(before);
        let c = after.chars().next()?;
        rest = &after[c.len_utf8()..];
        plain.push(match c {
            '"' | '\\' | '/' => c,
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'u' => code_point(&mut rest)?,
            _ => return None,
        });
    }
    plain.push_str(rest);
    Some(plain)
}

/// The character of four hexadecimal digits, or of a surrogate pair with `\u` between its halves.
fn code_point(rest: &mut &str) -> Option<char> {
    let high = four_digits(rest)?;
    if !(0xd800..0xdc00).contains(&high) {
        return char::from_u32(high);
    }
    *rest = rest.strip_prefix("\\u")?;
    let low = four_digits(rest)?.checked_sub(0xdc00);
    let low = low.filter(|low| *low < 0x400)?;
    char::from_u32(0x10000 + ((high - 0xd800) << 10) + low)
}

fn four_digits(rest: &mut &str) -> Option<u32> {
    let digits = rest.get(..4)?;
    *rest = &rest[4..];
    let all = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    all.then(|| u32::from_str_radix(digits, 16).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn surrogates_are_characters_only_in_pairs() {
        assert_eq!(unescaped(r"\ud83e\udd80").as_deref(), Some("\u{1F980}"));
        for invalid in [r"\ud83e", r"\udd80", r"\ud83e\u0041", r"\ud83e\uffff"] {
            assert_eq!(unescaped(invalid), None, "{invalid}");
        }
    }
}
