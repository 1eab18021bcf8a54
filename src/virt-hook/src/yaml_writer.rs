//! Writes YAML for kubectl: in block style, with quotes wherever YAML could read a text as something else.

use hook_host::is_printable;
use serde_json::Value;

/// The objects as one stream of documents.
pub(crate) fn documents(objects: &[Value]) -> String {
    let texts = objects.iter().map(|object| {
        let mut text = String::new();
        write_value(object, 0, &mut text);
        text.trim_start_matches('\n').to_owned()
    });
    texts.collect::<Vec<_>>().join("---\n")
}

/// Appends a value after its key or dash, with the line feed.
fn write_value(value: &Value, indent: usize, text: &mut String) {
    match value {
        Value::Object(members) if !members.is_empty() => {
            text.push('\n');
            for (key, member) in members {
                write_indentation(indent, text);
                *text += &format!("{}:", scalar(key));
                write_value(member, indent + 2, text);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            text.push('\n');
            for item in items {
                write_indentation(indent, text);
                text.push('-');
                let mut inner = String::new();
                write_value(item, indent + 2, &mut inner);
                // A map or list begins on the line of the dash.
                let inner = inner
                    .strip_prefix('\n')
                    .map_or(inner.as_str(), str::trim_start);
                *text += &format!(" {}", inner.trim_start_matches(' '));
            }
        }
        Value::String(string) if string.contains('\n') => write_block(string, indent, text),
        Value::String(string) => *text += &format!(" {}\n", scalar(string)),
        // Empty lists and maps, numbers, booleans and null are written as in JSON.
        other => *text += &format!(" {other}\n"),
    }
}

fn write_indentation(indent: usize, text: &mut String) {
    text.extend(std::iter::repeat_n(' ', indent));
}

/// Writes a text of several lines as a literal block, or in quotes if a block would change the text.
fn write_block(string: &str, indent: usize, text: &mut String) {
    let is_plain = |c: char| c == '\n' || c == '\t' || is_plain_character(c);
    let ends_well = string.ends_with('\n') && !string.ends_with("\n\n");
    let first = string.chars().next();
    if !ends_well || !string.chars().all(is_plain) || first.is_some_and(char::is_whitespace) {
        *text += &format!(" {}\n", double_quoted(string));
        return;
    }
    *text += " |\n";
    for line in string.lines() {
        if !line.is_empty() {
            write_indentation(indent, text);
        }
        *text += &format!("{line}\n");
    }
}

/// A text in one line: plain if YAML certainly reads it as the same text, in single quotes if it has double quotes, as
/// JSON does, else in double quotes.
pub(crate) fn scalar(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/_@='[]*:.-".contains(&byte);
    let starts_well =
        text.starts_with('/') || text.starts_with(|first: char| first.is_ascii_alphabetic());
    let lower = text.to_ascii_lowercase();
    let is_word = ["true", "false", "yes", "no", "on", "off", "null", "y", "n"].contains(&&*lower);
    if starts_well && text.bytes().all(is_plain) && !text.ends_with(':') && !is_word {
        return text.to_owned();
    }
    if text.contains('"') && text.chars().all(is_plain_character) {
        return format!("'{}'", text.replace('\'', "''"));
    }
    double_quoted(text)
}

/// The lines as comments. Characters that could end a comment, or that a terminal would obey, are escaped.
pub(crate) fn comment(text: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        out += "# ";
        for character in line.chars() {
            if character == '\t' || is_plain_character(character) {
                out.push(character);
            } else {
                out.extend(character.escape_default());
            }
        }
        out.push('\n');
    }
    out
}

/// Whether a character is itself in plain, single-quoted and literal text. For YAML 1.1, which kubectl reads, U+0085,
/// U+2028 and U+2029 end a line.
fn is_plain_character(c: char) -> bool {
    is_printable(c) && !matches!(c, '\u{fffe}' | '\u{ffff}')
}

/// A text as a JSON string, in which unprintable characters have YAML's escapes too.
fn double_quoted(text: &str) -> String {
    let mut out = String::new();
    for c in Value::from(text).to_string().chars() {
        match u32::from(c) {
            _ if is_plain_character(c) => out.push(c),
            code @ ..=0xffff => out += &format!("\\u{code:04x}"),
            code => out += &format!("\\U{code:08x}"),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn texts_that_yaml_reads_otherwise_are_quoted() {
        assert_eq!(
            scalar("/domain/os/boot[@dev='hd']/**"),
            "/domain/os/boot[@dev='hd']/**"
        );
        for text in [
            "/a b: c",
            "",
            "a:",
            "7",
            "/a#b",
            "true",
            "No",
            "it's \"so\"",
            "~",
        ] {
            let yaml = format!("[{}]", scalar(text));
            let read: Vec<String> = serde_saphyr::from_str(&yaml).unwrap_or_default();
            assert_eq!(read, [text]);
        }
    }

    #[test]
    fn unprintable_characters_are_escaped_in_keys_and_values() {
        for c in UNPRINTABLE.chars().filter(|c| *c != '\n') {
            for text in [
                format!("/domain/a{c}kind: Pod{c}# "),
                format!("a \"{c}\""),
                format!("# a{c}kind: Pod{c}#\n# b\n"),
                c.to_string(),
            ] {
                let objects = [json!({ text.as_str(): [text.as_str(), {"a": text.as_str()}] })];
                let written = documents(&objects);
                let is_plain = |c: char| c == '\n' || is_printable(c);
                assert!(written.chars().all(is_plain), "{written:?}");
                let read: Vec<Value> = serde_saphyr::from_multiple(&written).unwrap();
                assert_eq!(read, objects, "{written}");
                let comment = comment(&text);
                assert!(comment.chars().all(is_plain), "{comment:?}");
                assert!(comment.lines().all(|line| line.starts_with("# ")));
            }
        }
    }

    /// Characters that YAML, a terminal or a reader can take for something else.
    const UNPRINTABLE: &str =
        "\n\r\u{7f}\u{85}\u{9b}\u{ad}\u{200b}\u{2028}\u{2029}\u{202e}\u{2066}\u{feff}\u{e0041}";

    fn tree() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            "[ -~\n]{0,20}".prop_map(Value::from),
            texts().prop_map(Value::from),
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            Just(json!([])),
            Just(json!({})),
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 1..4).prop_map(Value::from),
                prop::collection::btree_map(texts(), inner, 1..4)
                    .prop_map(|map| map.into_iter().collect::<serde_json::Map<_, _>>().into()),
            ]
        })
    }

    fn texts() -> impl Strategy<Value = String> {
        let characters: Vec<char> = UNPRINTABLE.chars().chain(' '..='~').collect();
        let text = prop::collection::vec(prop::sample::select(characters), 0..12);
        text.prop_map(|characters| characters.into_iter().collect())
    }

    proptest! {
        #[test]
        fn documents_are_read_as_they_were(trees in prop::collection::vec(tree(), 1..3)) {
            let objects: Vec<Value> = trees.into_iter().map(|tree| json!({"it": tree})).collect();
            let text = documents(&objects);
            let read: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
            prop_assert_eq!(read, objects, "{}", text);
        }
    }
}
