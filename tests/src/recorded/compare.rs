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
pub enum How {
    /// The types are the same; the values are those of the machine or the moment.
    Type,
    /// The same, and numbers that are not zero are at most 100 times smaller or greater: the unit is the same.
    Unit,
    /// Each element of our list has the type of a recorded element; numbers and names of elements are the machine's.
    Elements,
    /// Ours may have further elements.
    More,
    /// An intended difference, or one of the recorded VM.
    Any,
}

/// A rule for the parts of an answer that its path matches.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// Which parts.
    pub path: Path,
    /// How they are compared.
    pub how: How,
    /// Why.
    pub reason: &'static str,
}

/// Finds differences, and keeps which rules were needed.
#[derive(Debug)]
pub struct Comparison<'a> {
    rules: &'a [Rule],
    differences: Vec<String>,
}

/// All differences between a recorded answer and ours, one line each.
pub fn differences(recorded: &Value, ours: &Value, rules: &[Rule]) -> Vec<String> {
    let mut comparison = Comparison {
        rules,
        differences: Vec::new(),
    };
    comparison.value("", recorded, ours, true);
    comparison.differences
}

impl Comparison<'_> {
    fn report(&mut self, path: &str, recorded: &Value, ours: &Value) {
        let short = |value: &Value| value.to_string().chars().take(120).collect::<String>();
        self.differences.push(format!(
            "{path}: recorded {}, ours {}",
            short(recorded),
            short(ours)
        ));
    }

    fn how(&self, path: &str) -> Vec<How> {
        let rules = self.rules.iter().filter(|rule| matches(rule.path, path));
        rules.map(|rule| rule.how).collect()
    }

    fn value(&mut self, path: &str, recorded: &Value, ours: &Value, exact: bool) {
        let how = self.how(path);
        if how.contains(&How::Any) {
            return;
        }
        let exact = exact && !how.contains(&How::Type) && !how.contains(&How::Unit);
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
            (Value::Array(expected), Value::Array(found)) if how.contains(&How::Elements) => {
                for element in found {
                    self.some_element(path, expected, element);
                }
            }
            (Value::Array(expected), Value::Array(found)) => {
                self.list(path, expected, found, exact, how.contains(&How::More));
            }
            (Value::String(expected), Value::String(found)) => {
                match (json(expected), json(found)) {
                    // The agent's answers are passed on as texts.
                    (Some(expected), Some(found)) => self.value(path, &expected, &found, exact),
                    _ if exact && expected != found => self.report(path, recorded, ours),
                    _ => {}
                }
            }
            (Value::Number(expected), Value::Number(found)) => {
                let same_type = expected.is_f64() == found.is_f64();
                let same_unit =
                    !how.contains(&How::Unit) || is_same_unit(expected.as_f64(), found.as_f64());
                if !same_type || !same_unit || exact && expected != found {
                    self.report(path, recorded, ours);
                }
            }
            (expected, Value::Null) if is_zero(expected) => {}
            (Value::Array(_), Value::Null) if how.contains(&How::Elements) => {}
            (Value::Bool(_), Value::Bool(_)) if !exact => {}
            _ if recorded == ours => {}
            _ => self.report(path, recorded, ours),
        }
    }

    /// Whether an element has the type of one of the recorded elements; else reports the fewest differences to one.
    fn some_element(&mut self, path: &str, recorded: &[Value], element: &Value) {
        let path = join(path, "*");
        let to_each = recorded.iter().map(|expected| {
            let mut comparison = Comparison {
                rules: self.rules,
                differences: Vec::new(),
            };
            comparison.value(&path, expected, element, false);
            comparison.differences
        });
        let fewest = to_each.min_by_key(Vec::len);
        self.differences.extend(fewest.unwrap_or_default());
    }

    fn list(&mut self, path: &str, recorded: &[Value], ours: &[Value], exact: bool, more: bool) {
        let (expected, found) = identities(recorded, ours);
        for (identity, element) in expected.iter().zip(recorded) {
            let path = join(path, identity);
            match found.iter().position(|one| one == identity) {
                Some(place) => self.value(&path, element, &ours[place], exact),
                None if self.how(&path).contains(&How::Any) => {}
                None => self.report(&path, element, &Value::Null),
            }
        }
        for (identity, element) in found.iter().zip(ours) {
            let path = join(path, identity);
            if !more && !expected.contains(identity) && !self.how(&path).contains(&How::Any) {
                self.report(&path, &Value::Null, element);
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
    const FACTOR: f64 = 100.0;
    match (expected, found) {
        (Some(expected), Some(found)) if expected != 0.0 && found != 0.0 => {
            (1.0 / FACTOR..FACTOR).contains(&(found / expected).abs())
        }
        _ => true,
    }
}

/// What identifies the elements of both lists: the first field that is different in all elements of each, else their places.
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
    let places = |list: &[Value]| (0..list.len()).map(|place| place.to_string()).collect();
    named.unwrap_or_else(|| (places(recorded), places(ours)))
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
