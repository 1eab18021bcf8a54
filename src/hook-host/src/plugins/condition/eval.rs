//! The value of a checked condition, for one VMI.

use serde_json::{Map, Value as Json};

use super::NoValue;
use super::check::{Comparison, Expr, TextTest, Type, Value};

type Evaluated<T> = Result<T, NoValue>;

/// Whether the condition holds.
pub(super) fn truth(expr: &Expr, vmi: &Json) -> Evaluated<bool> {
    match value(expr, vmi)? {
        Value::Bool(truth) => Ok(truth),
        other => Err(odd(&other)),
    }
}

/// The check leaves nothing for this; it is an error rather than a panic.
fn odd(found: &Value) -> NoValue {
    NoValue(format!("{found:?} is of another type than it should be"))
}

fn value(expr: &Expr, vmi: &Json) -> Evaluated<Value> {
    Ok(match expr {
        Expr::Literal(value) => value.clone(),
        Expr::Read(way, found) => read(at(vmi, way), *found, way)?,
        Expr::IsSet(way, found) => Value::Bool(is_set(at(vmi, way), *found, way)?),
        Expr::Index(way, key) => {
            let key = text(key, vmi)?;
            let found = map(vmi, way)?.and_then(|map| map.get(&key));
            let found = found.ok_or_else(|| NoValue(format!("no such key: {key}")))?;
            read(Some(found), Type::String, way)?
        }
        Expr::HasKey(way, key) => {
            let key = text(key, vmi)?;
            Value::Bool(map(vmi, way)?.is_some_and(|map| map.contains_key(&key)))
        }
        Expr::Keys(way) => length(map(vmi, way)?.map_or(0, Map::len)),
        Expr::Length(of) => length(text(of, vmi)?.chars().count()),
        Expr::Among(what, list) => {
            let what = value(what, vmi)?;
            let list: Evaluated<Vec<Value>> = list.iter().map(|one| value(one, vmi)).collect();
            Value::Bool(list?.contains(&what))
        }
        Expr::Not(of) => Value::Bool(!truth(of, vmi)?),
        Expr::And(a, b) => Value::Bool(both(truth(a, vmi), || truth(b, vmi), false)?),
        Expr::Or(a, b) => Value::Bool(both(truth(a, vmi), || truth(b, vmi), true)?),
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

/// `decides` of either side decides, whatever the other is, even if that has no value.
fn both(a: Evaluated<bool>, b: impl FnOnce() -> Evaluated<bool>, decides: bool) -> Evaluated<bool> {
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

fn text(expr: &Expr, vmi: &Json) -> Evaluated<String> {
    match value(expr, vmi)? {
        Value::String(text) => Ok(text),
        other => Err(odd(&other)),
    }
}

fn length(count: usize) -> Value {
    Value::Int(i64::try_from(count).unwrap_or(i64::MAX))
}

/// What the JSON has there. What is null is not there, as for Go.
fn at<'a>(vmi: &'a Json, way: &[&str]) -> Option<&'a Json> {
    let found = way.iter().try_fold(vmi, |value, key| value.get(key))?;
    (!found.is_null()).then_some(found)
}

fn map<'a>(vmi: &'a Json, way: &[&str]) -> Evaluated<Option<&'a Map<String, Json>>> {
    match at(vmi, way) {
        None => Ok(None),
        Some(Json::Object(map)) => Ok(Some(map)),
        Some(_) => Err(mistyped(way)),
    }
}

fn mistyped(way: &[&str]) -> NoValue {
    NoValue(format!(
        "{} of the VMI has another type than KubeVirt's",
        way.join(".")
    ))
}

/// What is not there is zero.
fn read(found: Option<&Json>, wanted: Type, way: &[&str]) -> Evaluated<Value> {
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
    read.ok_or_else(|| mistyped(way))
}

fn is_set(found: Option<&Json>, wanted: Type, way: &[&str]) -> Evaluated<bool> {
    if matches!(wanted, Type::Map | Type::Pointer) {
        return Ok(found.is_some());
    }
    Ok(match read(found, wanted, way)? {
        Value::Bool(truth) => truth,
        Value::Int(number) => number != 0,
        Value::Uint(number) => number != 0,
        Value::String(text) => !text.is_empty(),
    })
}
