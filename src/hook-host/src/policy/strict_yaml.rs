//! Parses the YAML of policy files strictly: unknown keys, missing values, aliases and the like are errors.

use std::fmt;
use std::path::Path;

use granit_parser::{Event, Marker, Parser};
use serde::de::{
    Deserialize, DeserializeOwned, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use serde_saphyr::{DuplicateKeyPolicy, MergeKeyPolicy, Options};

use super::policy_file::{PolicyError, YamlPosition};

/// Parses one document. Missing values, unknown and repeated keys, merge keys, aliases, tags and a second document are
/// refused.
pub(super) fn parse<T: DeserializeOwned>(path: &Path, text: &str) -> Result<T, PolicyError> {
    let policy_error = |error: serde_saphyr::Error| {
        let position = error
            .location()
            .map_or(YamlPosition::START, YamlPosition::from);
        PolicyError::at(path, position, error_text(&error, text))
    };
    let is_empty = |line: &str| matches!(line.trim(), "" | "---") || line.trim().starts_with('#');
    if text.lines().all(is_empty) {
        let reason = "it is empty, which limits nothing: write {} if that is meant";
        return Err(PolicyError::at(path, YamlPosition::START, reason));
    }
    let notation = check_notation(text);
    if let Notation::Tagged { position, what } = &notation {
        let reason = format!("the {what} is not accepted: write the value itself");
        return Err(PolicyError::at(path, *position, reason));
    }
    serde_saphyr::from_str_with_options::<CompleteDocument>(text, options())
        .map_err(policy_error)?;
    // What was not read to its end may have a tag that was not found.
    if let Notation::Unreadable { position, reason } = notation {
        return Err(PolicyError::at(path, position, reason));
    }
    serde_saphyr::from_str_with_options(text, options()).map_err(policy_error)
}

fn options() -> Options {
    let budget = serde_saphyr::budget! {
        max_aliases: 0,
        max_anchors: 0,
        max_depth: 16,
        max_documents: 1,
        max_nodes: 20_000,
    };
    serde_saphyr::options! {
        budget: budget,
        duplicate_keys: DuplicateKeyPolicy::Error,
        merge_keys: MergeKeyPolicy::Error,
        strict_booleans: true,
        with_snippet: false,
    }
}

/// The text of the parser's error in plain words, without the position, which [`PolicyError`] prints first.
fn error_text(error: &serde_saphyr::Error, file: &str) -> String {
    let text = error.to_string();
    let message = text.lines().next().unwrap_or_default();
    let message = message.strip_prefix("error: ").unwrap_or(message);
    let Some(at) = error.location() else {
        return plain_message(message, "");
    };
    let (line, column) = (at.line(), at.column());
    let message = message.replace(&format!(" at line {line}, column {column}"), "");
    let message = message.replace(&format!("line {line} column {column}: "), "");
    let to_usize = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    let whole_line = file.lines().nth(to_usize(line).saturating_sub(1));
    let before = whole_line.unwrap_or_default().chars();
    let before: String = before.take(to_usize(column).saturating_sub(1)).collect();
    plain_message(&message, &before)
}

/// Any document in which every key and every item has a value. Without this check `paths:` without a
/// value would mean that no path is limited, although its author meant an empty list.
struct CompleteDocument;

impl<'de> Deserialize<'de> for CompleteDocument {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(CompleteDocumentVisitor)
    }
}

struct CompleteDocumentVisitor;

impl<'de> Visitor<'de> for CompleteDocumentVisitor {
    type Value = CompleteDocument;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value: [] for an empty list, {} for nothing set")
    }

    fn visit_bool<E>(self, _: bool) -> Result<CompleteDocument, E> {
        Ok(CompleteDocument)
    }

    fn visit_i64<E>(self, _: i64) -> Result<CompleteDocument, E> {
        Ok(CompleteDocument)
    }

    fn visit_u64<E>(self, _: u64) -> Result<CompleteDocument, E> {
        Ok(CompleteDocument)
    }

    fn visit_i128<E>(self, _: i128) -> Result<CompleteDocument, E> {
        Ok(CompleteDocument)
    }

    fn visit_u128<E>(self, _: u128) -> Result<CompleteDocument, E> {
        Ok(CompleteDocument)
    }

    fn visit_f64<E>(self, _: f64) -> Result<CompleteDocument, E> {
        Ok(CompleteDocument)
    }

    fn visit_str<E>(self, _: &str) -> Result<CompleteDocument, E> {
        Ok(CompleteDocument)
    }

    fn visit_some<D: Deserializer<'de>>(self, inner: D) -> Result<CompleteDocument, D::Error> {
        CompleteDocument::deserialize(inner)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<CompleteDocument, A::Error> {
        while items.next_element::<CompleteDocument>()?.is_some() {}
        Ok(CompleteDocument)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<CompleteDocument, A::Error> {
        while entries.next_key::<IgnoredAny>()?.is_some() {
            entries.next_value::<CompleteDocument>()?;
        }
        Ok(CompleteDocument)
    }
}

// The search for YAML tags. A tag such as `!!binary` changes what the text of a value means, so that a reader of the
// file sees another value than the policy has; other tags are dropped by the parser without a word.

/// Whether a document is written without tags.
enum Notation {
    Plain,
    /// The first tag or `%TAG` directive.
    Tagged {
        position: YamlPosition,
        /// `tag !!str`, or `directive %TAG`.
        what: String,
    },
    /// The text could not be read to its end.
    Unreadable {
        position: YamlPosition,
        reason: String,
    },
}

/// Searches for the first tag, on keys and values.
fn check_notation(text: &str) -> Notation {
    if let Some(notation) = tag_directive(text) {
        return notation;
    }
    for event in Parser::new_from_str(text) {
        let (event, span) = match event {
            Ok(event) => event,
            Err(error) => {
                return Notation::Unreadable {
                    position: position(*error.marker()),
                    reason: error.info().to_owned(),
                };
            }
        };
        let tag = match event {
            Event::Scalar(_, _, _, tag)
            | Event::SequenceStart(_, _, tag)
            | Event::MappingStart(_, _, tag) => tag,
            _ => None,
        };
        if let Some(tag) = tag {
            let written = span.tag_span();
            let written = written.and_then(|span| Some((span.start, span.slice(text)?.to_owned())));
            let (start, tag) = written.unwrap_or_else(|| (span.start, tag.to_string()));
            return Notation::Tagged {
                position: position(start),
                what: format!("tag {tag}"),
            };
        }
    }
    Notation::Plain
}

/// The directive `%TAG` before the document. The parser resolves tags with it, and has no event for it.
fn tag_directive(text: &str) -> Option<Notation> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    // The line ends of YAML.
    let text = text.replace("\r\n", "\n");
    let lines = text.split(['\n', '\r']);
    let mut before_document = lines.take_while(|line| !line.starts_with("---")).zip(1..);
    let (_, line) = before_document.find(|(line, _)| line.starts_with("%TAG"))?;
    Some(Notation::Tagged {
        position: YamlPosition { line, column: 1 },
        what: "directive %TAG".to_owned(),
    })
}

/// The parser counts columns from 0.
fn position(marker: Marker) -> YamlPosition {
    YamlPosition {
        line: marker.line() as u64,
        column: marker.col() as u64 + 1,
    }
}

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
fn plain_message(message: &str, before: &str) -> String {
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
mod tests;
