//! Rewrites the messages of the YAML parser for authors of policy files.

/// A part of the parser's message, and the text that replaces the whole message.
const MESSAGES: &[(&str, &str)] = &[
    ("breached: Anchors", "anchors and aliases are not accepted"),
    ("breached: Aliases", "anchors and aliases are not accepted"),
    ("breached: Depth", "it is nested deeper than 16 levels"),
    ("breached: Nodes", "it has more than 20000 values"),
    ("breached: Documents", "it has a second document"),
    ("breached: ", "it is larger than such a file may be"),
    ("merge keys are not allowed", "merge keys are not accepted"),
];
/// Messages about the type of a value, whose text begins with the key.
const TYPE_MESSAGES: &[(&str, &str)] = &[
    ("invalid i32", "a whole number is wanted, and not so large"),
    ("invalid bool", "true or false is wanted"),
    ("expected string scalar", "a text or a number is wanted"),
    ("expected sequence start", "a list is wanted"),
    ("expected mapping start", "keys with values are wanted"),
    ("tagged enum expected scalar", "a word is wanted"),
    (
        "invalid type: unit value",
        "a value is missing: [] is an empty list, {} is nothing set",
    ),
];
const REPEATED_KEY_PREFIX: &str = "duplicate mapping key: ";
const REPEATED_KEY_SUFFIX: &str = ", set DuplicateKeyPolicy in Options if acceptable";

/// The parser's message in plain words. `before` is the line of the file up to the position of the error.
pub(super) fn plain_message(message: &str, before: &str) -> String {
    let find = |messages: &[(&str, &'static str)]| {
        let entry = messages.iter().find(|(part, _)| message.contains(part));
        entry.map(|(_, text)| *text)
    };
    if let Some(text) = find(MESSAGES) {
        return text.to_owned();
    }
    if let Some(text) = find(TYPE_MESSAGES) {
        return match last_key(before) {
            Some(key) => format!("{key}: {text}"),
            None => text.to_owned(),
        };
    }
    match message.strip_prefix(REPEATED_KEY_PREFIX) {
        Some(key) => {
            let key = key.strip_suffix(REPEATED_KEY_SUFFIX).unwrap_or(key);
            format!("the key {key} is repeated")
        }
        None => message.to_owned(),
    }
}

/// The key whose value begins at the end of the text.
fn last_key(before: &str) -> Option<&str> {
    let key = before.trim_end().strip_suffix(':')?;
    let key = key.rsplit(['{', ',', ' ', '[']).next()?;
    (!key.is_empty()).then_some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_contains_the_key_of_the_value() {
        for (before, start) in [
            ("priority: ", "priority: a whole number"),
            ("  a: {b: 1, priority: ", "priority: a whole number"),
            ("- ", "a whole number"),
            ("", "a whole number"),
        ] {
            let message = plain_message("invalid i32", before);
            assert!(message.starts_with(start), "{before}: {message}");
        }
    }
}
