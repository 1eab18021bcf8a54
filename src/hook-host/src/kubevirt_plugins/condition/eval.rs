//! Evaluates a type-checked condition for one VMI.

use serde_json::{Map, Value as Json};

use super::NoValue;
use super::type_check::{Comparison, Expr, TextTest, Type, Value};

type EvalResult<T> = Result<T, NoValue>;

/// Whether the condition holds.
pub(super) fn truth(expr: &Expr, vmi: &Json) -> EvalResult<bool> {
    match value(expr, vmi)? {
        Value::Bool(truth) => Ok(truth),
        other => Err(type_error(&other)),
    }
}

/// The type check rules this out; returned as an error rather than a panic.
fn type_error(found: &Value) -> NoValue {
    NoValue(format!("{found:?} is of another type than it should be"))
}

fn value(expr: &Expr, vmi: &Json) -> EvalResult<Value> {
    Ok(match expr {
        Expr::Literal(value) => value.clone(),
        Expr::Read(path, found) => read(at(vmi, path), *found, path)?,
        Expr::IsSet(path, found) => Value::Bool(is_set(at(vmi, path), *found, path)?),
        Expr::Index(path, key) => {
            let key = text(key, vmi)?;
            let found = map(vmi, path)?.and_then(|map| map.get(&key));
            let found = found.ok_or_else(|| NoValue(format!("no such key: {key}")))?;
            read(Some(found), Type::String, path)?
        }
        Expr::HasKey(path, key) => {
            let key = text(key, vmi)?;
            Value::Bool(map(vmi, path)?.is_some_and(|map| map.contains_key(&key)))
        }
        Expr::Keys(path) => length(map(vmi, path)?.map_or(0, Map::len)),
        Expr::Length(of) => length(text(of, vmi)?.chars().count()),
        Expr::Among(what, list) => {
            let what = value(what, vmi)?;
            let list: EvalResult<Vec<Value>> = list.iter().map(|one| value(one, vmi)).collect();
            Value::Bool(list?.contains(&what))
        }
        Expr::Not(of) => Value::Bool(!truth(of, vmi)?),
        Expr::And(a, b) => Value::Bool(short_circuit(truth(a, vmi), || truth(b, vmi), false)?),
        Expr::Or(a, b) => Value::Bool(short_circuit(truth(a, vmi), || truth(b, vmi), true)?),
        Expr::If(which, yes, other) => value(if truth(which, vmi)? { yes } else { other }, vmi)?,
        Expr::Compare(how, a, b) => Value::Bool(compare(*how, &value(a, vmi)?, &value(b, vmi)?)),
        Expr::Text(how, whole, part) => {
            let (whole, part) = (text(whole, vmi)?, text(part, vmi)?);
            Value::Bool(match how {
                TextTest::StartsWith => whole.starts_with(&part),
                TextTest::EndsWith => whole.ends_with(&part),
                TextTest::Contains => whole.contains(&part),
            })
        }
    })
}

/// Evaluates `&&` and `||`: if either side is `decides`, so is the result, even if the other side has no value.
fn short_circuit(
    a: EvalResult<bool>,
    b: impl FnOnce() -> EvalResult<bool>,
    decides: bool,
) -> EvalResult<bool> {
    if a == Ok(decides) {
        return Ok(decides);
    }
    match b() {
        Ok(b) if b == decides => Ok(decides),
        b => a.and(b),
    }
}

fn compare(how: Comparison, a: &Value, b: &Value) -> bool {
    match how {
        Comparison::Equal => a == b,
        Comparison::NotEqual => a != b,
        Comparison::Less => a < b,
        Comparison::LessOrEqual => a <= b,
        Comparison::Greater => a > b,
        Comparison::GreaterOrEqual => a >= b,
    }
}

fn text(expr: &Expr, vmi: &Json) -> EvalResult<String> {
    match value(expr, vmi)? {
        Value::String(text) => Ok(text),
        other => Err(type_error(&other)),
    }
}

fn length(count: usize) -> Value {
    Value::Int(i64::try_from(count).unwrap_or(i64::MAX))
}

/// The value at a path of the JSON. As in Go, `null` counts as absent.
fn at<'a>(vmi: &'a Json, path: &[&str]) -> Option<&'a Json> {
    let found = path.iter().try_fold(vmi, |value, key| value.get(key))?;
    (!found.is_null()).then_some(found)
}

fn map<'a>(vmi: &'a Json, path: &[&str]) -> EvalResult<Option<&'a Map<String, Json>>> {
    match at(vmi, path) {
        None => Ok(None),
        Some(Json::Object(map)) => Ok(Some(map)),
        Some(_) => Err(mistyped(path)),
    }
}

fn mistyped(path: &[&str]) -> NoValue {
    NoValue(format!(
        "{} of the VMI has another type than KubeVirt's",
        path.join(".")
    ))
}

/// Reads a value; an absent one is zero, as in Go.
fn read(found: Option<&Json>, wanted: Type, path: &[&str]) -> EvalResult<Value> {
    let read = match (wanted, found) {
        (Type::String, None) => Some(Value::String(String::new())),
        (Type::String, Some(found)) => found.as_str().map(|text| Value::String(text.to_owned())),
        (Type::Bool, None) => Some(Value::Bool(false)),
        (Type::Bool, Some(found)) => found.as_bool().map(Value::Bool),
        (Type::Int, None) => Some(Value::Int(0)),
        (Type::Int, Some(found)) => found.as_i64().map(Value::Int),
        (Type::Uint, None) => Some(Value::Uint(0)),
        (Type::Uint, Some(found)) => found.as_u64().map(Value::Uint),
        (Type::Map | Type::Pointer, _) => None,
    };
    read.ok_or_else(|| mistyped(path))
}

fn is_set(found: Option<&Json>, wanted: Type, path: &[&str]) -> EvalResult<bool> {
    if matches!(wanted, Type::Map | Type::Pointer) {
        return Ok(found.is_some());
    }
    Ok(match read(found, wanted, path)? {
        Value::Bool(truth) => truth,
        Value::Int(number) => number != 0,
        Value::Uint(number) => number != 0,
        Value::String(text) => !text.is_empty(),
    })
}
