//! What a YAML parser says about a file, in words for those who write the file.

/// A text in the parser's messages, and ours for the whole message.
const WHOLE: &[(&str, &str)] = &[
    ("breached: Anchors", "anchors and aliases are not accepted"),
    ("breached: Aliases", "anchors and aliases are not accepted"),
    ("breached: Depth", "it is nested deeper than 16 levels"),
    ("breached: Nodes", "it has more than 20000 values"),
    ("breached: Documents", "it has a second document"),
    ("breached: ", "it is larger than such a file may be"),
    ("merge keys are not allowed", "merge keys are not accepted"),
];
/// The same for the type of a value, which belongs to a key.
const TYPES: &[(&str, &str)] = &[
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
const REPEATED: &str = "duplicate mapping key: ";
const ADVICE_FOR_PROGRAMMERS: &str = ", set DuplicateKeyPolicy in Options if acceptable";

/// The message in plain words; `before` is the line of the file up to the place of the error.
pub(super) fn plain_reason(message: &str, before: &str) -> String {
    let find = |words: &[(&str, &'static str)]| {
        let found = words.iter().find(|(word, _)| message.contains(word));
        found.map(|(_, ours)| *ours)
    };
    if let Some(ours) = find(WHOLE) {
        return ours.to_owned();
    }
    if let Some(ours) = find(TYPES) {
        return match key(before) {
            Some(key) => format!("{key}: {ours}"),
            None => ours.to_owned(),
        };
    }
    match message.strip_prefix(REPEATED) {
        Some(key) => {
            let key = key.strip_suffix(ADVICE_FOR_PROGRAMMERS).unwrap_or(key);
            format!("the key {key} is repeated")
        }
        None => message.to_owned(),
    }
}

/// The key whose value begins where the text ends.
fn key(before: &str) -> Option<&str> {
    let key = before.trim_end().strip_suffix(':')?;
    let key = key.rsplit(['{', ',', ' ', '[']).next()?;
    (!key.is_empty()).then_some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_contains_the_key_of_the_value() {
        for (before, named) in [
            ("priority: ", "priority: a whole number"),
            ("  a: {b: 1, priority: ", "priority: a whole number"),
            ("- ", "a whole number"),
            ("", "a whole number"),
        ] {
            let reason = plain_reason("invalid i32", before);
            assert!(reason.starts_with(named), "{before}: {reason}");
        }
    }
}
