//! Evaluates a type-checked condition for one VMI.

use serde_json::{Map, Value as Json};

use super::NoValue;
use super::typed_expression::{Comparison, Expr, TextTest, Type, Value};

type EvalResult<T> = Result<T, NoValue>;

/// Whether the condition holds for the VMI.
pub(super) fn condition_holds(expr: &Expr, vmi: &Json) -> EvalResult<bool> {
    match evaluate(expr, vmi)? {
        Value::Bool(holds) => Ok(holds),
        other => Err(type_error(&other)),
    }
}

/// The error for a value of the wrong type. The type check excludes it, but an error is better than a panic.
fn type_error(found: &Value) -> NoValue {
    NoValue(format!("{found:?} is of another type than it should be"))
}

fn evaluate(expr: &Expr, vmi: &Json) -> EvalResult<Value> {
    Ok(match expr {
        Expr::Literal(value) => value.clone(),
        Expr::Read(path, member_type) => read_value(json_at(vmi, path), *member_type, path)?,
        Expr::IsSet(path, member_type) => {
            Value::Bool(is_set(json_at(vmi, path), *member_type, path)?)
        }
        Expr::Index(path, key) => {
            let key = evaluate_string(key, vmi)?;
            let json = map(vmi, path)?.and_then(|map| map.get(&key));
            let json = json.ok_or_else(|| NoValue(format!("no such key: {key}")))?;
            read_value(Some(json), Type::String, path)?
        }
        Expr::HasKey(path, key) => {
            let key = evaluate_string(key, vmi)?;
            Value::Bool(map(vmi, path)?.is_some_and(|map| map.contains_key(&key)))
        }
        Expr::MapSize(path) => int_value(map(vmi, path)?.map_or(0, Map::len)),
        Expr::Length(operand) => int_value(evaluate_string(operand, vmi)?.chars().count()),
        Expr::InList(item, list) => {
            let item = evaluate(item, vmi)?;
            let list: EvalResult<Vec<Value>> =
                list.iter().map(|element| evaluate(element, vmi)).collect();
            Value::Bool(list?.contains(&item))
        }
        Expr::Not(operand) => Value::Bool(!condition_holds(operand, vmi)?),
        Expr::And(a, b) => Value::Bool(short_circuit(
            condition_holds(a, vmi),
            || condition_holds(b, vmi),
            false,
        )?),
        Expr::Or(a, b) => Value::Bool(short_circuit(
            condition_holds(a, vmi),
            || condition_holds(b, vmi),
            true,
        )?),
        Expr::If(condition, then, otherwise) => {
            let branch = if condition_holds(condition, vmi)? {
                then
            } else {
                otherwise
            };
            evaluate(branch, vmi)?
        }
        Expr::Compare(operator, a, b) => {
            Value::Bool(compare(*operator, &evaluate(a, vmi)?, &evaluate(b, vmi)?))
        }
        Expr::Text(test, whole, part) => {
            let (whole, part) = (evaluate_string(whole, vmi)?, evaluate_string(part, vmi)?);
            Value::Bool(match test {
                TextTest::StartsWith => whole.starts_with(&part),
                TextTest::EndsWith => whole.ends_with(&part),
                TextTest::Contains => whole.contains(&part),
            })
        }
    })
}

/// Evaluates `&&` and `||`: if either side is `deciding`, so is the result, even if the other side has no value.
fn short_circuit(
    a: EvalResult<bool>,
    b: impl FnOnce() -> EvalResult<bool>,
    deciding: bool,
) -> EvalResult<bool> {
    if a == Ok(deciding) {
        return Ok(deciding);
    }
    match b() {
        Ok(b) if b == deciding => Ok(deciding),
        b => a.and(b),
    }
}

fn compare(operator: Comparison, a: &Value, b: &Value) -> bool {
    match operator {
        Comparison::Equal => a == b,
        Comparison::NotEqual => a != b,
        Comparison::Less => a < b,
        Comparison::LessOrEqual => a <= b,
        Comparison::Greater => a > b,
        Comparison::GreaterOrEqual => a >= b,
    }
}

fn evaluate_string(expr: &Expr, vmi: &Json) -> EvalResult<String> {
    match evaluate(expr, vmi)? {
        Value::String(text) => Ok(text),
        other => Err(type_error(&other)),
    }
}

fn int_value(count: usize) -> Value {
    Value::Int(i64::try_from(count).unwrap_or(i64::MAX))
}

/// The value at a path of the JSON. As in Go, `null` counts as absent.
fn json_at<'a>(vmi: &'a Json, path: &[&str]) -> Option<&'a Json> {
    let json = path.iter().try_fold(vmi, |value, key| value.get(key))?;
    (!json.is_null()).then_some(json)
}

fn map<'a>(vmi: &'a Json, path: &[&str]) -> EvalResult<Option<&'a Map<String, Json>>> {
    match json_at(vmi, path) {
        None => Ok(None),
        Some(Json::Object(map)) => Ok(Some(map)),
        Some(_) => Err(member_type_error(path)),
    }
}

fn member_type_error(path: &[&str]) -> NoValue {
    NoValue(format!(
        "{} of the VMI has another type than KubeVirt's",
        path.join(".")
    ))
}

/// Reads a member. The value of an absent member is zero, as in Go.
fn read_value(json: Option<&Json>, member_type: Type, path: &[&str]) -> EvalResult<Value> {
    let value = match (member_type, json) {
        (Type::String, None) => Some(Value::String(String::new())),
        (Type::String, Some(json)) => json.as_str().map(|text| Value::String(text.to_owned())),
        (Type::Bool, None) => Some(Value::Bool(false)),
        (Type::Bool, Some(json)) => json.as_bool().map(Value::Bool),
        (Type::Int, None) => Some(Value::Int(0)),
        (Type::Int, Some(json)) => json.as_i64().map(Value::Int),
        (Type::Uint, None) => Some(Value::Uint(0)),
        (Type::Uint, Some(json)) => json.as_u64().map(Value::Uint),
        (Type::Map | Type::Pointer, _) => None,
    };
    value.ok_or_else(|| member_type_error(path))
}

/// Whether a member is present and, unless it is a map or pointer, not zero.
fn is_set(json: Option<&Json>, member_type: Type, path: &[&str]) -> EvalResult<bool> {
    if matches!(member_type, Type::Map | Type::Pointer) {
        return Ok(json.is_some());
    }
    Ok(match read_value(json, member_type, path)? {
        Value::Bool(is_true) => is_true,
        Value::Int(number) => number != 0,
        Value::Uint(number) => number != 0,
        Value::String(text) => !text.is_empty(),
    })
}
