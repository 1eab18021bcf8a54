//! Parses the YAML of policy files strictly: unknown keys, missing values, aliases and the like are errors.

mod error_message;
mod missing_value_check;
mod tag_check;
#[cfg(test)]
mod tests;

use std::path::Path;

use serde::de::DeserializeOwned;
use serde_saphyr::{DuplicateKeyPolicy, MergeKeyPolicy, Options};

use super::policy_error::{PolicyError, YamlPosition};
use error_message::plain_message;
use missing_value_check::CompleteDocument;
use tag_check::{Notation, check_notation};

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
