//! Conditions of plugins and their hooks: CEL expressions about the virtual machine.
//!
//! KubeVirt type-checks and evaluates CEL over Go types: those of the VMI, and those of libvirtxml for the domain. No
//! Rust crate has the latter, and no crate for CEL has a type check. So the `cel` crate is used as a parser only. An
//! expression is accepted if it uses only members of the VMI that [`vmi_schema`] lists with their Go names and types,
//! and operators with exactly KubeVirt's meaning. Every other expression is an [`InvalidCondition`].
//!
//! Accepted expressions have no loops, so the cost of evaluation is linear in the text's length.

mod eval;
#[cfg(test)]
mod tests;
mod type_check;
mod typed_expression;
mod vmi_schema;

use std::collections::HashMap;

use cel::parser::Parser;
use serde_json::Value as Json;

/// Maximum length of a condition in bytes.
const MAX_BYTES: usize = 4096;
/// Maximum nesting depth of brackets.
const MAX_DEPTH: u16 = 32;

/// A type-checked condition.
#[derive(Debug)]
pub(super) struct Condition(typed_expression::Expr);

/// A condition is not valid CEL, or uses an unsupported feature.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct InvalidCondition(String);

/// A condition has no value for this VMI, for instance because of a missing label.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct NoValue(String);

/// The value of a condition for a VMI; the outer error means that the condition is invalid for every VMI.
pub(super) type ConditionResult = Result<Result<bool, NoValue>, InvalidCondition>;

/// Evaluates conditions for one VMI; each distinct text is evaluated once.
pub(super) struct ConditionCache<'a> {
    vmi: &'a str,
    /// The parsed VMI; `None` until the first condition is evaluated.
    json: Option<Json>,
    results: HashMap<&'a str, ConditionResult>,
}

impl<'a> ConditionCache<'a> {
    /// `vmi` is the VMI's JSON.
    pub(super) fn new(vmi: &'a str) -> Self {
        Self {
            vmi,
            json: None,
            results: HashMap::new(),
        }
    }

    pub(super) fn evaluate(&mut self, text: &'a str) -> ConditionResult {
        let Self { vmi, json, results } = self;
        let evaluate = || {
            let json = json.get_or_insert_with(|| serde_json::from_str(vmi).unwrap_or_default());
            Condition::parse(text).map(|condition| condition.holds(json))
        };
        results.entry(text).or_insert_with(evaluate).clone()
    }
}

impl Condition {
    pub(super) fn parse(text: &str) -> Result<Self, InvalidCondition> {
        if text.len() > MAX_BYTES {
            let size = text.len();
            return Err(InvalidCondition(format!(
                "its {size} bytes are more than the {MAX_BYTES} that are read"
            )));
        }
        let parsed = Parser::new().max_recursion_depth(MAX_DEPTH).parse(text);
        let parsed = parsed.map_err(|errors| {
            let first = errors.errors.first();
            InvalidCondition(first.map_or("it is not CEL".to_owned(), |error| {
                format!("it is not CEL: {}", error.msg)
            }))
        })?;
        type_check::check_condition(&parsed).map(Self)
    }

    /// Whether the condition holds for this VMI.
    pub(super) fn holds(&self, vmi: &Json) -> Result<bool, NoValue> {
        eval::condition_holds(&self.0, vmi)
    }
}
