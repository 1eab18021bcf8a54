//! Conditions on the values that a hook writes to a path.

use super::quoted;
#[cfg(not(target_family = "wasm"))]
use super::validation;

/// What the values are that a hook writes to a path: the host refuses every other value, and the removal of what is
/// there.
///
/// A condition makes a wish for something dangerous one that an operator can grant: a log file in one directory rather
/// than any file. It is given to [`Description::with_conditioned_path`](super::Description::with_conditioned_path).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValueCondition {
    below: Option<String>,
    one_of: Option<Vec<String>>,
    matches: Option<String>,
    at_most: Option<u64>,
}

const NONE: ValueCondition = ValueCondition {
    below: None,
    one_of: None,
    matches: None,
    at_most: None,
};

impl ValueCondition {
    /// Absolute paths below this directory, written without `..`, `.`, `//` and a `/` at the end. Only the text counts:
    /// links in the directory are followed by who opens the file.
    #[must_use]
    pub fn below(directory: impl Into<String>) -> ValueCondition {
        NONE.and_below(directory)
    }

    /// These values, from 1 to 64.
    #[must_use]
    pub fn one_of(values: impl IntoIterator<Item = impl Into<String>>) -> ValueCondition {
        NONE.and_one_of(values)
    }

    /// Values that a regular expression of at most 256 bytes describes as a whole, in the syntax of the crate `regex`
    /// without Unicode classes.
    #[must_use]
    pub fn matches(expression: impl Into<String>) -> ValueCondition {
        NONE.and_matches(expression)
    }

    /// Numbers up to this one: decimal digits without sign, unit, space and leading zeros.
    #[must_use]
    pub fn at_most(maximum: u64) -> ValueCondition {
        NONE.and_at_most(maximum)
    }

    /// Also [`ValueCondition::below`]. This and the others replace a condition of the same kind.
    #[must_use]
    pub fn and_below(mut self, directory: impl Into<String>) -> ValueCondition {
        self.below = Some(directory.into());
        self
    }

    /// Also [`ValueCondition::one_of`].
    #[must_use]
    pub fn and_one_of(
        mut self,
        values: impl IntoIterator<Item = impl Into<String>>,
    ) -> ValueCondition {
        self.one_of = Some(values.into_iter().map(Into::into).collect());
        self
    }

    /// Also [`ValueCondition::matches`].
    #[must_use]
    pub fn and_matches(mut self, expression: impl Into<String>) -> ValueCondition {
        self.matches = Some(expression.into());
        self
    }

    /// Also [`ValueCondition::at_most`].
    #[must_use]
    pub fn and_at_most(mut self, maximum: u64) -> ValueCondition {
        self.at_most = Some(maximum);
        self
    }

    /// The members of the wish behind its path, each after a comma.
    pub(super) fn json_members(&self) -> String {
        let mut members = String::new();
        if let Some(directory) = &self.below {
            members += &format!(",\"below\":{}", quoted(directory));
        }
        if let Some(values) = &self.one_of {
            let values: Vec<String> = values.iter().map(|value| quoted(value)).collect();
            members += &format!(",\"one-of\":[{}]", values.join(","));
        }
        if let Some(expression) = &self.matches {
            members += &format!(",\"matches\":{}", quoted(expression));
        }
        if let Some(maximum) = self.at_most {
            members += &format!(",\"at-most\":{maximum}");
        }
        members
    }

    /// The host's rules, but for the syntax of a regular expression.
    #[cfg(not(target_family = "wasm"))]
    pub(super) fn check(&self) -> Result<(), String> {
        /// The maximum length of a value in bytes.
        const MAX_VALUE: usize = 4096;
        if let Some(directory) = &self.below {
            validation::check_directory(directory)?;
        }
        if let Some(values) = &self.one_of {
            if !(1..=64).contains(&values.len()) {
                return Err(format!("one_of: {} values, not 1 to 64", values.len()));
            }
            for value in values {
                validation::printable("value", value)?;
                if value.len() > MAX_VALUE {
                    let length = value.len();
                    return Err(format!(
                        "one_of: a value of {length} bytes, more than {MAX_VALUE}"
                    ));
                }
            }
        }
        if let Some(expression) = &self.matches {
            validation::printable("expression", expression)?;
            if expression.len() > 256 {
                let length = expression.len();
                return Err(format!(
                    "matches: an expression of {length} bytes, more than 256"
                ));
            }
        }
        Ok(())
    }
}
