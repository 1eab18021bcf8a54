//! Single values on one line.

use serde_json::Value;

/// The state of the scanner: open quotes and brackets.
#[derive(Default)]
struct Scan {
    /// Brackets that are open.
    depth: usize,
    quote: Option<char>,
    escaped: bool,
    /// A single quote has just closed; another one makes the two a quoted quote.
    closed: bool,
}

impl Scan {
    fn step(&mut self, at: usize, c: char) {
        if self.quote == Some('"') && c == '\\' && !self.escaped {
            self.escaped = true;
            return;
        }
        let closed = std::mem::take(&mut self.closed);
        match (self.quote, c) {
            (Some(open), _) if open == c && !self.escaped => {
                self.quote = None;
                self.closed = open == '\'';
            }
            (Some(_), _) => {}
            (None, '\'') if closed => self.quote = Some(c),
            // Inside a plain text, quotes and brackets have no meaning.
            (None, '\'' | '"') if at == 0 || self.depth > 0 => self.quote = Some(c),
            (None, '[' | '{') if at == 0 || self.depth > 0 => self.depth += 1,
            (None, ']' | '}') => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        self.escaped = false;
    }

    fn is_over(&self) -> bool {
        self.quote.is_none() && self.depth == 0
    }
}

/// The end of the value at the start of `text`, before trailing white space and a comment. `None` if a quote or bracket
/// is still open at the end of the line.
pub(super) fn end(text: &str) -> Option<usize> {
    let mut scan = Scan::default();
    let mut before = ' ';
    for (at, c) in text.char_indices() {
        if c == '#' && scan.quote.is_none() && before.is_whitespace() {
            return scan.is_over().then(|| text[..at].trim_end().len());
        }
        scan.step(at, c);
        before = c;
    }
    scan.is_over().then(|| text.trim_end().len())
}

/// Where the bracket closes that a flow list or mapping begins with.
pub(super) fn close(text: &str) -> Option<usize> {
    let mut scan = Scan::default();
    text.char_indices().find_map(|(at, c)| {
        scan.step(at, c);
        scan.is_over().then_some(at)
    })
}

/// The items of a flow list on one line, given what is between its brackets.
pub(super) fn items(inside: &str) -> Vec<&str> {
    // As within brackets, where quotes count anywhere.
    let mut scan = Scan {
        depth: 1,
        ..Scan::default()
    };
    let (mut items, mut begin) = (Vec::new(), 0);
    for (at, c) in inside.char_indices() {
        scan.step(at, c);
        if c == ',' && scan.depth == 1 && scan.quote.is_none() {
            items.push(inside[begin..at].trim());
            begin = at + 1;
        }
    }
    items.push(inside[begin..].trim());
    items
}

/// Whether the written item of a list has this value.
pub(super) fn is_item(written: &str, value: &Value) -> bool {
    let is_mapping = !written.starts_with(['"', '\'']) && written.contains(": ");
    is(written, value) && (!is_mapping || !value.is_string())
}

/// The text of a plain or quoted value on one line.
pub(super) fn text(value: &str) -> Option<String> {
    let value = &value[..end(value)?];
    match value.chars().next()? {
        '"' => serde_json::from_str(value).ok(),
        '\'' => {
            let inside = value.strip_prefix('\'')?.strip_suffix('\'')?;
            Some(inside.replace("''", "'"))
        }
        '[' | '{' | '&' | '*' | '!' | '|' | '>' => None,
        _ => Some(value.to_owned()),
    }
}

/// Whether the written scalar already has this value.
pub(super) fn is(written: &str, value: &Value) -> bool {
    let written = &written[..end(written).unwrap_or(written.len())];
    let quoted = written.starts_with(['"', '\'']);
    match value {
        Value::String(expected) => {
            let plain_text = quoted || !means_no_text(written);
            plain_text && text(written).as_deref() == Some(expected)
        }
        other => {
            let expected = other.to_string();
            !quoted && written == expected
        }
    }
}

/// Whether YAML could parse a plain value as something other than text.
fn means_no_text(plain: &str) -> bool {
    let first = plain.chars().next();
    let words = [
        "", "~", "null", "true", "false", "yes", "no", "on", "off", "y", "n",
    ];
    first.is_some_and(|c| c.is_ascii_digit() || matches!(c, '.' | '-' | '+' | '<' | '='))
        || words.contains(&plain.to_ascii_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_value_ends_before_its_comment() {
        for (line, value) in [
            ("a b  # c", "a b"),
            ("a#b", "a#b"),
            ("'it''s # ]' # c", "'it''s # ]'"),
            (r#""a\" # b" # c"#, r#""a\" # b""#),
            ("[a, '#', {b: c}] # d", "[a, '#', {b: c}]"),
            ("it's", "it's"),
        ] {
            assert_eq!(end(line).map(|end| &line[..end]), Some(value), "{line}");
        }
        for open in ["[a,", "'a", "\"a\\\"", "{a: [}"] {
            assert_eq!(end(open), None, "{open}");
        }
    }

    #[test]
    fn items_are_split_at_the_commas_of_their_list() {
        for (inside, expected) in [
            ("a, b", &["a", "b"][..]),
            (
                "'a,b', \"c,\\\"d\", [e, f], {g: h, i: j}",
                &["'a,b'", "\"c,\\\"d\"", "[e, f]", "{g: h, i: j}"],
            ),
            ("it''s, b", &["it''s", "b"]),
            (" ", &[""]),
        ] {
            assert_eq!(items(inside), expected, "{inside}");
        }
        assert!(is_item("'a: b'", &json!("a: b")) && !is_item("a: b", &json!("a: b")));
    }

    #[test]
    fn inline_values_are_distinguished_from_similar_text() {
        assert!(
            is("eth0", &json!("eth0")) && is("'1'", &json!("1")) && is("9000 # x", &json!(9000))
        );
        assert!(!is("1", &json!("1")) && !is("'1'", &json!(1)) && !is("yes", &json!("yes")));
        assert_eq!(text("'it''s'").as_deref(), Some("it's"));
        assert_eq!(text("[a]"), None);
    }
}
