//! The search for YAML tags. A tag such as `!!binary` changes what the text of a value means, so that a reader of the
//! file sees another value than the policy has; other tags are dropped by the parser without a word.

use granit_parser::{Event, Marker, Parser};

use crate::policy::policy_error::YamlPosition;

/// Whether a document is written without tags.
pub(super) enum Notation {
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
pub(super) fn check_notation(text: &str) -> Notation {
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
