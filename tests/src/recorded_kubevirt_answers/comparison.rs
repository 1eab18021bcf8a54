//! Compares a recorded answer with ours, field by field.
//!
//! The recordings were decoded into Go structs, in which a field that is absent in the JSON has its zero value. So a
//! field that is absent in our answer equals only `null`, `""`, 0 and `false`.

mod list_element_identities;
mod rule;
mod scalars_and_go_zero_values;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use serde_json::Value;

use list_element_identities::identities;
pub use rule::{Path, Rule, Strictness, matches};
use scalars_and_go_zero_values::{is_same_unit, is_zero, json_object, without_version};

/// The result of a comparison.
#[derive(Debug, Default)]
pub struct Findings {
    /// The differences that no rule allows, one line each.
    pub differences: Vec<String>,
    /// The indices of the needed rules: [`Strictness::Is`] and [`Strictness::Any`] are needed only if there is a
    /// difference, other rules if there is a part that they match.
    pub needed_rules: BTreeSet<usize>,
}

/// Compares a recorded answer with ours.
pub fn compare(recorded: &Value, ours: &Value, rules: &[Rule]) -> Findings {
    let mut comparison = Comparison {
        rules,
        findings: Findings::default(),
    };
    comparison.compare_value("", recorded, ours, true);
    comparison.findings
}

/// A comparison of one answer.
struct Comparison<'a> {
    rules: &'a [Rule],
    findings: Findings,
}

impl Comparison<'_> {
    fn report(&mut self, path: &str, recorded: &Value, ours: &Value) {
        let short = |value: &Value| value.to_string().chars().take(160).collect::<String>();
        self.findings.differences.push(format!(
            "{path}: recorded {}, ours {}",
            short(recorded),
            short(ours)
        ));
    }

    /// The strictness of all rules for the part at `path`.
    fn strictness(&mut self, path: &str, is_different: bool) -> Vec<Strictness> {
        let rules = self.rules.iter().enumerate();
        let matching = rules.filter(|(_, rule)| matches(rule.path, path));
        let mut strictness = Vec::new();
        for (index, rule) in matching {
            let is_intended = matches!(rule.strictness, Strictness::Is(_) | Strictness::Any);
            if is_different || !is_intended {
                self.findings.needed_rules.insert(index);
            }
            strictness.push(rule.strictness);
        }
        strictness
    }

    fn compare_value(&mut self, path: &str, recorded: &Value, ours: &Value, exact: bool) {
        let strictness = self.strictness(path, recorded != ours);
        let has = |other: Strictness| strictness.contains(&other);
        if has(Strictness::Any) {
            return;
        }
        let expected = strictness.iter().find_map(|strictness| match strictness {
            Strictness::Is(json) => Some(serde_json::from_str(json).unwrap_or_default()),
            _ => None,
        });
        if let Some(expected) = expected {
            return self.compare_intended_value(path, &expected, ours);
        }
        let exact = exact && !has(Strictness::Type) && !has(Strictness::Unit);
        match (recorded, ours) {
            (Value::Object(expected), Value::Object(actual)) => {
                let names: BTreeSet<_> = expected.keys().chain(actual.keys()).collect();
                for name in names {
                    let field = |object: &serde_json::Map<String, Value>| object.get(name).cloned();
                    let (expected, actual) = (field(expected), field(actual));
                    let path = join(path, name);
                    self.compare_value(
                        &path,
                        &expected.unwrap_or_default(),
                        &actual.unwrap_or_default(),
                        exact,
                    );
                }
            }
            (Value::Array(expected), Value::Array(actual)) if has(Strictness::Elements) => {
                if expected.is_empty() != actual.is_empty() {
                    self.report(path, recorded, ours);
                }
                for element in actual {
                    self.compare_with_closest_element(path, expected, element);
                }
            }
            (Value::Array(expected), Value::Array(actual)) => {
                self.compare_list(path, expected, actual, exact, has(Strictness::Common));
            }
            (Value::String(expected), Value::String(actual)) => {
                match (json_object(expected), json_object(actual)) {
                    // The agent's answers are JSON in strings.
                    (Some(expected), Some(actual)) => {
                        self.compare_value(path, &expected, &actual, exact)
                    }
                    _ => {
                        let differs = match has(Strictness::Unversioned) {
                            true => without_version(expected) != without_version(actual),
                            false => exact && expected != actual,
                        };
                        if differs {
                            self.report(path, recorded, ours);
                        }
                    }
                }
            }
            (Value::Number(expected), Value::Number(actual)) => {
                let same_type = expected.is_f64() == actual.is_f64();
                let same_unit =
                    !has(Strictness::Unit) || is_same_unit(expected.as_f64(), actual.as_f64());
                if !same_type || !same_unit || exact && expected != actual {
                    self.report(path, recorded, ours);
                }
            }
            (expected, Value::Null) if is_zero(expected) => {}
            (Value::Bool(_), Value::Bool(_)) if !exact => {}
            _ if recorded == ours => {}
            _ => self.report(path, recorded, ours),
        }
    }

    fn compare_intended_value(&mut self, path: &str, expected: &Value, ours: &Value) {
        if expected != ours {
            let line = format!("{path}: intended {expected}, ours {ours}");
            self.findings.differences.push(line);
        }
    }

    /// Compares an element with the recorded element from which it differs least, by type only.
    fn compare_with_closest_element(&mut self, path: &str, recorded: &[Value], element: &Value) {
        let path = join(path, "*");
        let comparisons = recorded.iter().map(|expected| {
            let mut comparison = Comparison {
                rules: self.rules,
                findings: Findings::default(),
            };
            comparison.compare_value(&path, expected, element, false);
            comparison.findings
        });
        let fewest = comparisons.min_by_key(|findings| findings.differences.len());
        let fewest = fewest.unwrap_or_default();
        self.findings.differences.extend(fewest.differences);
        self.findings.needed_rules.extend(fewest.needed_rules);
    }

    /// Compares an element that only one of the lists has; the other value is null.
    fn compare_lone_element(&mut self, path: &str, recorded: &Value, ours: &Value) {
        let strictness = self.strictness(path, true);
        match strictness.first() {
            Some(Strictness::Any | Strictness::Is(_)) => {
                self.compare_value(path, recorded, ours, true)
            }
            _ => self.report(path, recorded, ours),
        }
    }

    fn compare_list(
        &mut self,
        path: &str,
        recorded: &[Value],
        ours: &[Value],
        exact: bool,
        common_only: bool,
    ) {
        let (expected, actual) = identities(recorded, ours);
        if common_only && !expected.iter().any(|identity| actual.contains(identity)) {
            self.report(path, &recorded.into(), &ours.into());
        }
        for (identity, element) in expected.iter().zip(recorded) {
            let path = join(path, identity);
            match actual.iter().position(|other| other == identity) {
                Some(index) => self.compare_value(&path, element, &ours[index], exact),
                None if common_only => {}
                None => self.compare_lone_element(&path, element, &Value::Null),
            }
        }
        for (identity, element) in actual.iter().zip(ours) {
            if !common_only && !expected.contains(identity) {
                self.compare_lone_element(&join(path, identity), &Value::Null, element);
            }
        }
    }
}

fn join(path: &str, name: &str) -> String {
    match path.is_empty() {
        true => name.to_owned(),
        false => format!("{path}.{name}"),
    }
}
