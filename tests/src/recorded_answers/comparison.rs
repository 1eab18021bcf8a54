//! Compares a recorded answer with ours, field by field.
//!
//! The recordings went through Go's types: a field that is absent in the JSON has its zero value there. So a field that
//! is absent in ours equals `null`, `""`, 0 and `false`, and nothing else.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use serde_json::Value;

/// A path in an answer: names joined by dots, elements of lists by what identifies them, like `Block.vda.RdReqs`.
/// `*` in a rule stands for one part, `**` at its end for all further parts.
pub type Path = &'static str;

/// How a part of an answer is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strictness {
    /// The types are the same; the values are those of the machine or the moment.
    Type,
    /// Numbers have the same unit: they are at most 30 times smaller or greater, and zero only where zero was recorded.
    Unit,
    /// A list whose elements are those of the machine: each of ours has the type of a recorded one, and ours is empty
    /// exactly if the recorded one is.
    Elements,
    /// A list to which the machine adds elements, and in which others are missing: those with a recorded name are
    /// compared, and there is at least one.
    Common,
    /// The text before its last dash is the same; what follows is a version.
    Unversioned,
    /// Ours is this JSON, an intended difference.
    Is(&'static str),
    /// Both are objects, lists or texts that need not have anything in common.
    Any,
}

/// A rule for the parts of an answer that its path matches.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// Which parts.
    pub path: Path,
    /// How they are compared.
    pub strictness: Strictness,
    /// Why.
    pub reason: &'static str,
}

/// What a comparison finds.
#[derive(Debug, Default)]
pub struct Findings {
    /// The differences that no rule allows, one line each.
    pub differences: Vec<String>,
    /// The indices of the rules that were needed: those about values of the machine or the moment if there was such a value,
    /// [`Strictness::Is`] and [`Strictness::Any`] if there was a difference.
    pub needed_rules: BTreeSet<usize>,
}

/// Compares a recorded answer with ours.
pub fn compare(recorded: &Value, ours: &Value, rules: &[Rule]) -> Findings {
    let mut comparison = Comparison {
        rules,
        findings: Findings::default(),
    };
    comparison.value("", recorded, ours, true);
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

    /// How the part at `path` is compared.
    fn strictness(&mut self, path: &str, is_different: bool) -> Vec<Strictness> {
        let rules = self.rules.iter().enumerate();
        let matching = rules.filter(|(_, rule)| matches(rule.path, path));
        let mut found = Vec::new();
        for (index, rule) in matching {
            let is_intended = matches!(rule.strictness, Strictness::Is(_) | Strictness::Any);
            if is_different || !is_intended {
                self.findings.needed_rules.insert(index);
            }
            found.push(rule.strictness);
        }
        found
    }

    fn value(&mut self, path: &str, recorded: &Value, ours: &Value, exact: bool) {
        let strictness = self.strictness(path, recorded != ours);
        let has = |wanted: Strictness| strictness.contains(&wanted);
        if has(Strictness::Any) {
            return;
        }
        let expected = strictness.iter().find_map(|one| match one {
            Strictness::Is(json) => Some(serde_json::from_str(json).unwrap_or_default()),
            _ => None,
        });
        if let Some(expected) = expected {
            return self.intended_value(path, &expected, ours);
        }
        let exact = exact && !has(Strictness::Type) && !has(Strictness::Unit);
        match (recorded, ours) {
            (Value::Object(expected), Value::Object(found)) => {
                let names: BTreeSet<_> = expected.keys().chain(found.keys()).collect();
                for name in names {
                    let field = |object: &serde_json::Map<String, Value>| object.get(name).cloned();
                    let (expected, found) = (field(expected), field(found));
                    let path = join(path, name);
                    self.value(
                        &path,
                        &expected.unwrap_or_default(),
                        &found.unwrap_or_default(),
                        exact,
                    );
                }
            }
            (Value::Array(expected), Value::Array(found)) if has(Strictness::Elements) => {
                if expected.is_empty() != found.is_empty() {
                    self.report(path, recorded, ours);
                }
                for element in found {
                    self.some_element(path, expected, element);
                }
            }
            (Value::Array(expected), Value::Array(found)) => {
                self.list(path, expected, found, exact, has(Strictness::Common));
            }
            (Value::String(expected), Value::String(found)) => {
                match (json(expected), json(found)) {
                    // The agent's answers are passed on as texts.
                    (Some(expected), Some(found)) => self.value(path, &expected, &found, exact),
                    _ => {
                        let differs = match has(Strictness::Unversioned) {
                            true => without_version(expected) != without_version(found),
                            false => exact && expected != found,
                        };
                        if differs {
                            self.report(path, recorded, ours);
                        }
                    }
                }
            }
            (Value::Number(expected), Value::Number(found)) => {
                let same_type = expected.is_f64() == found.is_f64();
                let same_unit =
                    !has(Strictness::Unit) || is_same_unit(expected.as_f64(), found.as_f64());
                if !same_type || !same_unit || exact && expected != found {
                    self.report(path, recorded, ours);
                }
            }
            (expected, Value::Null) if is_zero(expected) => {}
            (Value::Bool(_), Value::Bool(_)) if !exact => {}
            _ if recorded == ours => {}
            _ => self.report(path, recorded, ours),
        }
    }

    fn intended_value(&mut self, path: &str, expected: &Value, ours: &Value) {
        if expected != ours {
            let line = format!("{path}: intended {expected}, ours {ours}");
            self.findings.differences.push(line);
        }
    }

    /// Whether an element has the type of one of the recorded elements; else reports the fewest differences to one.
    fn some_element(&mut self, path: &str, recorded: &[Value], element: &Value) {
        let path = join(path, "*");
        let to_each = recorded.iter().map(|expected| {
            let mut comparison = Comparison {
                rules: self.rules,
                findings: Findings::default(),
            };
            comparison.value(&path, expected, element, false);
            comparison.findings
        });
        let fewest = to_each.min_by_key(|findings| findings.differences.len());
        let fewest = fewest.unwrap_or_default();
        self.findings.differences.extend(fewest.differences);
        self.findings.needed_rules.extend(fewest.needed_rules);
    }

    /// An element of only one of the lists: the other has null in its place.
    fn lone_element(&mut self, path: &str, recorded: &Value, ours: &Value) {
        let strictness = self.strictness(path, true);
        match strictness.first() {
            Some(Strictness::Any | Strictness::Is(_)) => self.value(path, recorded, ours, true),
            _ => self.report(path, recorded, ours),
        }
    }

    fn list(
        &mut self,
        path: &str,
        recorded: &[Value],
        ours: &[Value],
        exact: bool,
        common_only: bool,
    ) {
        let (expected, found) = identities(recorded, ours);
        if common_only && !expected.iter().any(|identity| found.contains(identity)) {
            self.report(path, &recorded.into(), &ours.into());
        }
        for (identity, element) in expected.iter().zip(recorded) {
            let path = join(path, identity);
            match found.iter().position(|one| one == identity) {
                Some(index) => self.value(&path, element, &ours[index], exact),
                None if common_only => {}
                None => self.lone_element(&path, element, &Value::Null),
            }
        }
        for (identity, element) in found.iter().zip(ours) {
            if !common_only && !expected.contains(identity) {
                self.lone_element(&join(path, identity), &Value::Null, element);
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

/// The JSON in a text, of an object only.
fn json(text: &str) -> Option<Value> {
    let value = serde_json::from_str::<Value>(text).ok();
    value.filter(Value::is_object)
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Number(number) => number.as_f64() == Some(0.0),
        _ => false,
    }
}

fn is_same_unit(expected: Option<f64>, found: Option<f64>) -> bool {
    const FACTOR: f64 = 30.0;
    match (expected, found) {
        (Some(expected), Some(found)) if expected != 0.0 => {
            (1.0 / FACTOR..=FACTOR).contains(&(found / expected))
        }
        _ => true,
    }
}

/// A text without what follows its last dash.
fn without_version(text: &str) -> &str {
    text.rsplit_once('-').map_or(text, |(name, _)| name)
}

/// What identifies the elements of both lists: the first field that is different in all elements of each, else their indices.
fn identities(recorded: &[Value], ours: &[Value]) -> (Vec<String>, Vec<String>) {
    const FIELDS: [&[&str]; 7] = [
        &["/Alias/Name"],
        &["/Target/Device"],
        &["/Name"],
        &["/name"],
        &["/diskName"],
        &["/ID"],
        &["/Type", "/Index"],
    ];
    let by = |fields: &[&str], list: &[Value]| -> Option<Vec<String>> {
        let text = |element: &Value| {
            let parts = fields.iter().map(|field| match element.pointer(field)? {
                Value::String(text) => Some(text.replace('.', "_")),
                Value::Number(number) => Some(number.to_string()),
                _ => None,
            });
            Some(parts.collect::<Option<Vec<_>>>()?.join("-"))
        };
        let names: Vec<String> = list.iter().map(text).collect::<Option<_>>()?;
        let distinct: BTreeSet<_> = names.iter().collect();
        (distinct.len() == names.len()).then_some(names)
    };
    let named = FIELDS
        .into_iter()
        .find_map(|fields| by(fields, recorded).zip(by(fields, ours)));
    let indices = |list: &[Value]| (0..list.len()).map(|index| index.to_string()).collect();
    named.unwrap_or_else(|| (indices(recorded), indices(ours)))
}

/// Whether a rule's path matches.
pub fn matches(pattern: &str, path: &str) -> bool {
    let (mut pattern, mut path) = (pattern.split('.'), path.split('.'));
    loop {
        match (pattern.next(), path.next()) {
            (Some("**"), _) => return true,
            (Some("*"), Some(_)) => {}
            (Some(expected), Some(part)) if expected == part => {}
            (None, None) => return true,
            _ => return false,
        }
    }
}
