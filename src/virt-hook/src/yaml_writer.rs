//! YAML for kubectl: block style, with quotes wherever a text could be read as anything but itself.

use serde_json::Value;

/// The objects as one stream of documents.
pub(crate) fn documents(objects: &[Value]) -> String {
    let texts = objects.iter().map(|object| {
        let mut text = String::new();
        value(object, 0, &mut text);
        text.trim_start_matches('\n').to_owned()
    });
    texts.collect::<Vec<_>>().join("---\n")
}

/// The text of a value after its key or dash, with the line feed.
fn value(value: &Value, indent: usize, text: &mut String) {
    match value {
        Value::Object(members) if !members.is_empty() => {
            text.push('\n');
            for (key, member) in members {
                line_start(indent, text);
                *text += &format!("{}:", scalar(key));
                self::value(member, indent + 2, text);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            text.push('\n');
            for item in items {
                line_start(indent, text);
                text.push('-');
                let mut inner = String::new();
                self::value(item, indent + 2, &mut inner);
                // A map or list begins on the line of the dash.
                let inner = inner
                    .strip_prefix('\n')
                    .map_or(inner.as_str(), str::trim_start);
                *text += &format!(" {}", inner.trim_start_matches(' '));
            }
        }
        Value::String(string) if string.contains('\n') => block(string, indent, text),
        Value::String(string) => *text += &format!(" {}\n", scalar(string)),
        // Empty lists and maps, numbers, booleans and null are written as in JSON.
        other => *text += &format!(" {other}\n"),
    }
}

fn line_start(indent: usize, text: &mut String) {
    text.extend(std::iter::repeat_n(' ', indent));
}

/// A text of several lines as a literal block, or in quotes if a block would change it.
fn block(string: &str, indent: usize, text: &mut String) {
    let is_plain = |c: char| c == '\n' || c == '\t' || !c.is_control();
    let ends_well = string.ends_with('\n') && !string.ends_with("\n\n");
    let first = string.chars().next();
    if !ends_well || !string.chars().all(is_plain) || first.is_some_and(char::is_whitespace) {
        *text += &format!(" {}\n", Value::from(string));
        return;
    }
    *text += " |\n";
    for line in string.lines() {
        if !line.is_empty() {
            line_start(indent, text);
        }
        *text += &format!("{line}\n");
    }
}

/// A text in one line: plain where that is certainly the same, in single quotes if it is JSON, else as JSON has it.
pub(crate) fn scalar(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/_@='[]*:.-".contains(&byte);
    let starts_well =
        text.starts_with('/') || text.starts_with(|first: char| first.is_ascii_alphabetic());
    let lower = text.to_ascii_lowercase();
    let is_word = ["true", "false", "yes", "no", "on", "off", "null", "y", "n"].contains(&&*lower);
    if starts_well && text.bytes().all(is_plain) && !text.ends_with(':') && !is_word {
        return text.to_owned();
    }
    let is_printable = |c: char| c == ' ' || !(c.is_control() || c.is_whitespace());
    if text.contains('"') && text.chars().all(is_printable) {
        return format!("'{}'", text.replace('\'', "''"));
    }
    Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
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

    fn tree() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            "[ -~\n]{0,20}".prop_map(Value::from),
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            Just(json!([])),
            Just(json!({})),
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 1..4).prop_map(Value::from),
                prop::collection::btree_map("[ -~]{1,8}", inner, 1..4)
                    .prop_map(|map| map.into_iter().collect::<serde_json::Map<_, _>>().into()),
            ]
        })
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
