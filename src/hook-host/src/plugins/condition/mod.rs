//! Conditions of plugins and their hooks: CEL about the virtual machine.
//!
//! KubeVirt checks and evaluates CEL over its Go types: the VMI's, and libvirtxml's for the domain.
//! No crate can carry the latter, nor does any check types before it evaluates. So the `cel` crate
//! parses here, and what it parsed is taken only if it is about members of the VMI that [`schema`]
//! knows by the names and types that they have in Go, with operators whose meaning is KubeVirt's to
//! the letter. Anything else is [`Unsupported`]: refused rather than guessed.
//!
//! There are no loops in what is taken, so that evaluation costs what the text's length does.

mod check;
mod eval;
mod schema;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;

use std::collections::HashMap;

use cel::parser::Parser;
use serde_json::Value as Json;

/// Longer ones are not read; what people write has a hundred.
const MAX_BYTES: usize = 4096;
/// Of brackets within brackets.
const MAX_DEPTH: u16 = 32;

/// A condition that may be evaluated.
#[derive(Debug)]
pub(super) struct Condition(check::Expr);

/// A condition that is none, or that is more than is evaluated here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct Unsupported(String);

/// A condition without a value for this VMI, as for a label that it does not have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct NoValue(String);

/// What a condition says of a VMI.
pub(super) type Said = Result<Result<bool, NoValue>, Unsupported>;

/// Conditions about one VMI, each looked at once however many hooks have it.
pub(super) struct About<'a> {
    vmi: &'a str,
    /// Read when the first condition asks.
    json: Option<Json>,
    said: HashMap<&'a str, Said>,
}

impl<'a> About<'a> {
    /// `vmi` is the VMI's JSON.
    pub(super) fn new(vmi: &'a str) -> Self {
        Self {
            vmi,
            json: None,
            said: HashMap::new(),
        }
    }

    pub(super) fn ask(&mut self, text: &'a str) -> Said {
        let Self { vmi, json, said } = self;
        let say = || {
            let json = json.get_or_insert_with(|| serde_json::from_str(vmi).unwrap_or_default());
            Condition::parse(text).map(|condition| condition.holds(json))
        };
        said.entry(text).or_insert_with(say).clone()
    }
}

impl Condition {
    pub(super) fn parse(text: &str) -> Result<Self, Unsupported> {
        if text.len() > MAX_BYTES {
            let size = text.len();
            return Err(Unsupported(format!(
                "its {size} bytes are more than the {MAX_BYTES} that are read"
            )));
        }
        let parsed = Parser::new().max_recursion_depth(MAX_DEPTH).parse(text);
        let parsed = parsed.map_err(|errors| {
            let first = errors.errors.first();
            Unsupported(first.map_or("it is no CEL".to_owned(), |error| {
                format!("it is no CEL: {}", error.msg)
            }))
        })?;
        check::condition(&parsed).map(Self)
    }

    /// Whether it holds for this VMI.
    pub(super) fn holds(&self, vmi: &Json) -> Result<bool, NoValue> {
        eval::truth(&self.0, vmi)
    }
}
