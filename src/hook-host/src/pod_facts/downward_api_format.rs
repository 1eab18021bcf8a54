//! The format of the downward API's files `annotations` and `labels`: a line `KEY="VALUE"` each, with the value quoted
//! as Go's `strconv.Quote` does. See <https://kubernetes.io/docs/concepts/workloads/pods/downward-api/>.

use std::collections::BTreeMap;
use std::fmt::Write;

/// Maximum number of lines. The API server permits 256 KiB of annotations; a pod has some tens.
const MAX_LINES: usize = 8192;

/// Parses the text of a file. The error names the line.
pub(super) fn parse(text: &str) -> Result<BTreeMap<String, String>, String> {
    let mut facts = BTreeMap::new();
    let text = text.strip_suffix('\n').unwrap_or(text);
    if text.is_empty() {
        return Ok(facts);
    }
    for (index, line) in text.split('\n').enumerate() {
        let number = index + 1;
        if number > MAX_LINES {
            return Err(format!("it has more than {MAX_LINES} lines"));
        }
        let invalid = |reason: &str| format!("line {number}: {reason}");
        let (key, quoted) = line
            .split_once('=')
            .filter(|(key, _)| is_key(key))
            .ok_or_else(|| invalid("it is not KEY=\"VALUE\""))?;
        let value = unquote(quoted).map_err(|reason| invalid(&reason))?;
        if facts.insert(key.to_owned(), value).is_some() {
            return Err(invalid("its key is there twice"));
        }
    }
    Ok(facts)
}

/// The text of a file in the kubelet's format. Go's escapes for some invisible characters are not made; the text parses
/// to the same facts.
#[must_use]
pub fn render(facts: &BTreeMap<String, String>) -> String {
    let lines = facts
        .iter()
        .map(|(key, value)| format!("{key}={}", quote(value)));
    lines.collect::<Vec<_>>().join("\n")
}

/// Whether a text is a key of annotations and labels, which have letters, digits, `-`, `_`, `.` and `/`.
fn is_key(key: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte);
    !key.is_empty() && key.bytes().all(is_allowed)
}

fn unquote(quoted: &str) -> Result<String, String> {
    let Some(inner) = quoted
        .strip_prefix('"')
        .and_then(|rest| rest.strip_suffix('"'))
        .filter(|_| quoted.len() >= 2)
    else {
        return Err("its value is not in quotes".to_owned());
    };
    let mut value = Vec::with_capacity(inner.len());
    let mut rest = inner;
    while let Some(at) = rest.find(['\\', '"']) {
        value.extend_from_slice(&rest.as_bytes()[..at]);
        if rest.as_bytes()[at] == b'"' {
            return Err("its value ends before the end of the line".to_owned());
        }
        let escape = &rest[at + 1..];
        let length = unescape(escape, &mut value)
            .ok_or_else(|| format!("{:?} is not an escape of Go", first_characters(&rest[at..])))?;
        rest = &escape[length..];
    }
    value.extend_from_slice(rest.as_bytes());
    String::from_utf8(value).map_err(|_| "its value is not UTF-8".to_owned())
}

/// Appends the bytes that an escape stands for, and returns the length of the escape without its `\`.
fn unescape(escape: &str, value: &mut Vec<u8>) -> Option<usize> {
    let kind = escape.chars().next()?;
    let single = match kind {
        'a' => b'\x07',
        'b' => b'\x08',
        'f' => b'\x0c',
        'n' => b'\n',
        'r' => b'\r',
        't' => b'\t',
        'v' => b'\x0b',
        '\\' | '"' => u8::try_from(kind).ok()?,
        _ => {
            let digits = match kind {
                'x' => 2,
                'u' => 4,
                'U' => 8,
                _ => return None,
            };
            let number = escape.get(1..=digits)?;
            let is_hex = number.bytes().all(|byte| byte.is_ascii_hexdigit());
            let number = u32::from_str_radix(number, 16).ok().filter(|_| is_hex)?;
            match kind {
                'x' => value.push(u8::try_from(number).ok()?),
                _ => value.extend(char::from_u32(number)?.to_string().into_bytes()),
            }
            return Some(1 + digits);
        }
    };
    value.push(single);
    Some(1)
}

fn quote(value: &str) -> String {
    let mut quoted = String::from("\"");
    for c in value.chars() {
        let _ = match c {
            '\x07' => write!(quoted, "\\a"),
            '\x08' => write!(quoted, "\\b"),
            '\x0c' => write!(quoted, "\\f"),
            '\n' => write!(quoted, "\\n"),
            '\r' => write!(quoted, "\\r"),
            '\t' => write!(quoted, "\\t"),
            '\x0b' => write!(quoted, "\\v"),
            '\\' | '"' => write!(quoted, "\\{c}"),
            _ if c < ' ' || c == '\x7f' => write!(quoted, "\\x{:02x}", u32::from(c)),
            _ if c.is_control() => write!(quoted, "\\u{:04x}", u32::from(c)),
            _ => write!(quoted, "{c}"),
        };
    }
    quoted + "\""
}

fn first_characters(text: &str) -> String {
    text.chars().take(10).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Lines that `fmt.Sprintf("%v=%q")` of Go 1.27 printed, as the kubelet writes them.
    const WRITTEN_BY_GO: &str = include_str!("../../tests/downward-api/annotations");

    #[test]
    fn lines_quoted_by_go_are_unquoted_exactly() {
        let facts = parse(WRITTEN_BY_GO).unwrap();
        let expected = [
            ("all-escapes", "\x07\x08\x0c\n\r\t\x0b\\\"'`"),
            ("controls", "\0\x1b\x7f\u{80}\u{feff}\u{e0001}"),
            ("empty", ""),
            ("example.com/json", "[{\n    \"name\": \"a\"\n}]"),
            ("replacement", "\u{fffd}"),
            ("unicode", "grün ☃ 🦀"),
            ("with-equals", "a=b=\"c\""),
        ];
        let expected = expected.map(|(key, value)| (key.to_owned(), value.to_owned()));
        assert_eq!(facts, BTreeMap::from(expected));
    }

    #[test]
    fn lines_that_go_does_not_write_are_invalid_and_named_by_number() {
        for (text, part) in [
            ("a", "line 1: it is not KEY="),
            ("=\"a\"", "not KEY="),
            ("a=b", "not in quotes"),
            ("a=\"", "not in quotes"),
            ("a=\"b", "not in quotes"),
            ("a=\"b\\\"", "not an escape"),
            ("a=\"b\" ", "not in quotes"),
            ("a=\"b\"c\"", "before the end"),
            ("a=\"\\q\"", "not an escape"),
            ("a=\"\\x1\"", "not an escape"),
            ("a=\"\\x+1\"", "not an escape"),
            ("a=\"\\ud800\"", "not an escape"),
            ("a=\"\\xff\"", "not UTF-8"),
            (
                "a=\"b\"\nc=\"d\"\na=\"e\"",
                "line 3: its key is there twice",
            ),
            ("a=\"b\"\n\nc=\"d\"", "line 2: it is not KEY="),
            ("a b=\"c\"", "not KEY="),
            ("a\rb=\"c\"", "not KEY="),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
        let many: String = (0..9000).map(|n| format!("k{n}=\"\"\n")).collect();
        assert!(parse(&many).unwrap_err().contains("8192 lines"));
    }

    #[test]
    fn an_empty_file_has_no_facts() {
        assert!(parse("").unwrap().is_empty());
        assert!(parse("\n").unwrap().is_empty());
    }

    proptest! {
        #[test]
        fn rendered_facts_are_parsed_back(facts in prop::collection::btree_map("[a-z./]{1,8}", any::<String>(), 0..6)) {
            prop_assert_eq!(parse(&render(&facts)).unwrap(), facts);
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in any::<String>()) {
            let _ = parse(&text);
        }
    }
}
