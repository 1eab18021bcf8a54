//! Conditions of plugins and their hooks: CEL expressions about the virtual machine.
//!
//! KubeVirt type-checks and evaluates CEL over Go types: those of the VMI, and those of libvirtxml for the domain. No
//! Rust crate has the latter, and no crate for CEL has a type check. So the `cel` crate is used as a parser only. An
//! expression is accepted if it uses only members of the VMI that [`vmi_schema`] lists with their Go names and types,
//! and operators with exactly KubeVirt's meaning. Every other expression is an [`InvalidCondition`].
//!
//! Accepted expressions have no loops, so the cost of evaluation is linear in the text's length.

use std::collections::HashMap;

use cel::common::ast::{
    CallExpr, Expr as Ast, IdedExpr, LiteralValue, SelectExpr, operators as op,
};
use cel::parser::Parser;
use serde_json::{Map, Value as Json};

/// Maximum length of a condition in bytes.
const MAX_BYTES: usize = 4096;
/// Maximum nesting depth of brackets.
const MAX_DEPTH: u16 = 32;

/// A type-checked condition.
#[derive(Debug)]
pub(super) struct Condition(Expr);

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
        check_condition(&parsed).map(Self)
    }

    /// Whether the condition holds for this VMI.
    pub(super) fn holds(&self, vmi: &Json) -> Result<bool, NoValue> {
        condition_holds(&self.0, vmi)
    }
}

/// A type-checked expression.
#[derive(Debug)]
enum Expr {
    Literal(Value),
    /// The value of a member of the VMI.
    Read(JsonPath, Type),
    /// Whether a member is not zero.
    IsSet(JsonPath, Type),
    /// The value of a key in a map. Evaluation fails if the key is missing.
    Index(JsonPath, Box<Expr>),
    /// Whether a map has a key.
    HasKey(JsonPath, Box<Expr>),
    /// Whether a list contains a value.
    InList(Box<Expr>, Vec<Expr>),
    Not(Box<Expr>),
    And(Box<Expr>, Box<Expr>),
    Or(Box<Expr>, Box<Expr>),
    /// Condition, value if it holds, and value otherwise.
    If(Box<Expr>, Box<Expr>, Box<Expr>),
    Compare(Comparison, Box<Expr>, Box<Expr>),
    Text(TextTest, Box<Expr>, Box<Expr>),
    /// The number of characters of a string.
    Length(Box<Expr>),
    /// The number of entries of a map.
    MapSize(JsonPath),
}

/// A path in the JSON of the VMI.
type JsonPath = Vec<&'static str>;

/// A value in CEL.
#[derive(Debug, Clone, PartialEq, PartialOrd)]
enum Value {
    Bool(bool),
    Int(i64),
    Uint(u64),
    String(String),
}

/// The type of a value or of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Type {
    Bool,
    Int,
    Uint,
    String,
    Pointer,
    Map,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TextTest {
    StartsWith,
    EndsWith,
    Contains,
}

impl Comparison {
    /// The comparison of an operator in the parsed expression.
    fn from_operator(name: &str) -> Option<Self> {
        Some(match name {
            op::EQUALS => Self::Equal,
            op::NOT_EQUALS => Self::NotEqual,
            op::LESS => Self::Less,
            op::LESS_EQUALS => Self::LessOrEqual,
            op::GREATER => Self::Greater,
            op::GREATER_EQUALS => Self::GreaterOrEqual,
            _ => return None,
        })
    }
}

impl TextTest {
    /// The test of a function in the parsed expression.
    fn from_function(name: &str) -> Option<Self> {
        Some(match name {
            "startsWith" => Self::StartsWith,
            "endsWith" => Self::EndsWith,
            "contains" => Self::Contains,
            _ => return None,
        })
    }
}

// Type-checks a parsed CEL expression, as CEL's own checker does, and converts it to the typed expression
// that [`super::cel_condition`] evaluates.

/// Maximum depth of operators. It is larger than the parser's limit on brackets, because a chain of operators is deep
/// without brackets.
const MAX_OPERATOR_DEPTH: usize = 128;

/// A type-checked subexpression: a value, a map of the VMI, or a struct whose members can be selected.
enum Part {
    Value(Expr, Type),
    Map(JsonPath),
    Struct(JsonPath, &'static [Member]),
}

type TypeCheck<T> = Result<T, InvalidCondition>;

/// Type-checks a whole condition, which must be a bool.
fn check_condition(parsed: &IdedExpr) -> TypeCheck<Expr> {
    check_type(parsed, Type::Bool, 0)
}

fn invalid<T>(reason: impl Into<String>) -> TypeCheck<T> {
    Err(InvalidCondition(reason.into()))
}

/// Type-checks an expression that must have the type `expected`.
fn check_type(parsed: &IdedExpr, expected: Type, depth: usize) -> TypeCheck<Expr> {
    match check_value(parsed, depth)? {
        (expr, value_type) if value_type == expected => Ok(expr),
        (_, value_type) => invalid(format!(
            "a {value_type:?} stands where a {expected:?} belongs"
        )),
    }
}

fn check_value(parsed: &IdedExpr, depth: usize) -> TypeCheck<(Expr, Type)> {
    match check_part(parsed, depth)? {
        Part::Value(expr, value_type) => Ok((expr, value_type)),
        Part::Map(path) | Part::Struct(path, _) => {
            invalid(format!("{} is not a single value", path.join(".")))
        }
    }
}

fn check_part(parsed: &IdedExpr, depth: usize) -> TypeCheck<Part> {
    if depth > MAX_OPERATOR_DEPTH {
        return invalid(format!("it is deeper than {MAX_DEPTH} operators"));
    }
    let depth = depth + 1;
    match &parsed.expr {
        Ast::Literal(literal) => check_literal(literal),
        Ast::Ident(name) if name == "vmi" => Ok(Part::Struct(JsonPath::new(), VMI)),
        Ast::Ident(name) => invalid(format!(
            "{name:?} is not known: conditions here are about vmi"
        )),
        Ast::Select(select) => check_select(select, depth),
        Ast::Call(call) => check_call(call, depth),
        Ast::Comprehension(_) => invalid("it has a loop (all, exists, map, filter)"),
        Ast::List(_) => invalid("a list stands elsewhere than after \"in\""),
        Ast::Map(_) => invalid("it makes a map"),
        Ast::Struct(made) => invalid(format!("it makes a {}", made.type_name)),
        Ast::Unspecified => invalid("it is empty"),
    }
}

fn check_literal(literal: &LiteralValue) -> TypeCheck<Part> {
    let (value, value_type) = match literal {
        LiteralValue::Boolean(value) => (Value::Bool(*value.inner()), Type::Bool),
        LiteralValue::Int(value) => (Value::Int(*value.inner()), Type::Int),
        LiteralValue::UInt(value) => (Value::Uint(*value.inner()), Type::Uint),
        LiteralValue::String(value) => (Value::String(value.inner().to_owned()), Type::String),
        LiteralValue::Bytes(_) => return invalid("it has a literal of bytes"),
        LiteralValue::Double(_) => return invalid("it has a number with a fraction"),
        LiteralValue::Null => return invalid("it has a null"),
    };
    Ok(Part::Value(Expr::Literal(value), value_type))
}

fn check_select(select: &SelectExpr, depth: usize) -> TypeCheck<Part> {
    let SelectExpr {
        operand,
        field,
        test: is_has_test,
    } = select;
    match check_part(operand, depth)? {
        Part::Value(..) => invalid(format!("{field:?} is asked of a single value")),
        // In CEL, `map.key` means `map["key"]`.
        Part::Map(path) => {
            let key = Box::new(Expr::Literal(Value::String(field.clone())));
            Ok(if *is_has_test {
                Part::Value(Expr::HasKey(path, key), Type::Bool)
            } else {
                Part::Value(Expr::Index(path, key), Type::String)
            })
        }
        Part::Struct(path, members) => check_member(path, members, field, *is_has_test),
    }
}

fn check_member(
    mut path: JsonPath,
    members: &'static [Member],
    field: &str,
    is_has_test: bool,
) -> TypeCheck<Part> {
    let Some(member) = members.iter().find(|member| member.name == field) else {
        let inside = if path.is_empty() {
            "vmi".to_owned()
        } else {
            path.join(".")
        };
        return invalid(format!(
            "{field:?} of {inside} is not among what is known here"
        ));
    };
    path.extend(member.json);
    let value_type = match member.kind {
        Kind::String => Type::String,
        Kind::Bool => Type::Bool,
        Kind::Int => Type::Int,
        Kind::Uint => Type::Uint,
        Kind::Map => Type::Map,
        Kind::Pointer(_) => Type::Pointer,
        Kind::Struct(_) if is_has_test => {
            return invalid(format!("has({field}) of what is always there"));
        }
        Kind::Struct(members) => return Ok(Part::Struct(path, members)),
    };
    Ok(match member.kind {
        _ if is_has_test => Part::Value(Expr::IsSet(path, value_type), Type::Bool),
        Kind::Pointer(members) => Part::Struct(path, members),
        Kind::Map => Part::Map(path),
        _ => Part::Value(Expr::Read(path, value_type), value_type),
    })
}

fn check_call(call: &CallExpr, depth: usize) -> TypeCheck<Part> {
    let arguments: Vec<&IdedExpr> = call
        .target
        .as_deref()
        .into_iter()
        .chain(&call.args)
        .collect();
    let of_target = call.target.is_some();
    let bool_of = |parsed| check_type(parsed, Type::Bool, depth).map(Box::new);
    let (expr, value_type) = match (call.func_name.as_str(), of_target, arguments.as_slice()) {
        (op::LOGICAL_NOT, false, [operand]) => (Expr::Not(bool_of(operand)?), Type::Bool),
        (op::LOGICAL_AND, false, [a, b]) => (Expr::And(bool_of(a)?, bool_of(b)?), Type::Bool),
        (op::LOGICAL_OR, false, [a, b]) => (Expr::Or(bool_of(a)?, bool_of(b)?), Type::Bool),
        (op::CONDITIONAL, false, [condition, then, otherwise]) => {
            let (then, value_type) = check_value(then, depth)?;
            let otherwise = check_type(otherwise, value_type, depth)?;
            (
                Expr::If(bool_of(condition)?, Box::new(then), Box::new(otherwise)),
                value_type,
            )
        }
        (op::INDEX, false, [map, key]) => match check_part(map, depth)? {
            Part::Map(path) => {
                let key = check_type(key, Type::String, depth)?;
                (Expr::Index(path, Box::new(key)), Type::String)
            }
            _ => return invalid("[...] is asked of what is not a map"),
        },
        (op::IN, false, [item, container]) => (check_in(item, container, depth)?, Type::Bool),
        ("size", _, [operand]) => (check_size(check_part(operand, depth)?)?, Type::Int),
        (name, _, arguments) => {
            let (comparison, test) = (
                Comparison::from_operator(name),
                TextTest::from_function(name),
            );
            match (comparison, test, of_target, arguments) {
                (Some(operator), _, false, [a, b]) => {
                    (check_comparison(operator, a, b, depth)?, Type::Bool)
                }
                (_, Some(test), true, [text, part]) => {
                    (check_text_test(test, text, part, depth)?, Type::Bool)
                }
                _ => return invalid(format!("it uses {:?}", name.trim_matches('_'))),
            }
        }
    };
    Ok(Part::Value(expr, value_type))
}

/// Type-checks a comparison. Both sides must have one type: KubeVirt's environment has no comparison across types.
fn check_comparison(
    operator: Comparison,
    a: &IdedExpr,
    b: &IdedExpr,
    depth: usize,
) -> TypeCheck<Expr> {
    let (a, value_type) = check_value(a, depth)?;
    let b = check_type(b, value_type, depth)?;
    Ok(Expr::Compare(operator, Box::new(a), Box::new(b)))
}

/// Type-checks a test of a string for a part of it.
fn check_text_test(
    test: TextTest,
    text: &IdedExpr,
    part: &IdedExpr,
    depth: usize,
) -> TypeCheck<Expr> {
    let text = Box::new(check_type(text, Type::String, depth)?);
    let part = Box::new(check_type(part, Type::String, depth)?);
    Ok(Expr::Text(test, text, part))
}

/// Type-checks `in`: a value in a list, or a key in a map.
fn check_in(item: &IdedExpr, container: &IdedExpr, depth: usize) -> TypeCheck<Expr> {
    let (item, value_type) = check_value(item, depth)?;
    let Ast::List(list) = &container.expr else {
        return match (check_part(container, depth)?, value_type) {
            (Part::Map(path), Type::String) => Ok(Expr::HasKey(path, Box::new(item))),
            _ => invalid("\"in\" is followed by neither a map nor a list"),
        };
    };
    if !list.optional_indices.is_empty() {
        return invalid("a list with optional members");
    }
    let list = list.elements.iter();
    let list: TypeCheck<Vec<Expr>> = list
        .map(|element| check_type(element, value_type, depth))
        .collect();
    Ok(Expr::InList(Box::new(item), list?))
}

fn check_size(operand: Part) -> TypeCheck<Expr> {
    match operand {
        Part::Map(path) => Ok(Expr::MapSize(path)),
        Part::Value(expr, Type::String) => Ok(Expr::Length(Box::new(expr))),
        _ => invalid("size of what has none"),
    }
}

// The members of the VMI that conditions may use: their names in Go, their paths in the JSON, and their CEL types.
//
// Source: the `api/core/v1` types of KubeVirt v1.9, and Kubernetes' `TypeMeta` and `ObjectMeta`, whose
// members are also members of the VMI.

/// A member of a Go struct.
#[derive(Debug, Clone, Copy)]
struct Member {
    /// The name of the member in Go.
    name: &'static str,
    /// The path of the member in the JSON of its struct.
    json: &'static [&'static str],
    kind: Kind,
}

/// The CEL type of a member.
#[derive(Debug, Clone, Copy)]
enum Kind {
    String,
    Bool,
    Int,
    Uint,
    /// A map from strings to strings.
    Map,
    /// A struct that is always present. CEL's `has` is false for it if all its members are zero, which is not supported
    /// here.
    Struct(&'static [Member]),
    /// A struct behind a pointer. If the pointer is nil, the members are zero.
    Pointer(&'static [Member]),
}

const fn member(name: &'static str, json: &'static [&'static str], kind: Kind) -> Member {
    Member { name, json, kind }
}

macro_rules! meta {
    ($($name:literal $json:literal $kind:ident),* $(,)?) => {
        /// The members of `ObjectMeta`, with paths from `metadata`.
        const META: &[Member] = &[$(member($name, &[$json], Kind::$kind)),*];
        /// The members of the VMI.
        const VMI: &[Member] = &[
            $(member($name, &["metadata", $json], Kind::$kind),)*
            member("Kind", &["kind"], Kind::String),
            member("APIVersion", &["apiVersion"], Kind::String),
            member("ObjectMeta", &["metadata"], Kind::Struct(META)),
            member("Spec", &["spec"], Kind::Struct(SPEC)),
            member("Status", &["status"], Kind::Struct(STATUS)),
        ];
    };
}

meta! {
    "Name" "name" String,
    "GenerateName" "generateName" String,
    "Namespace" "namespace" String,
    "UID" "uid" String,
    "ResourceVersion" "resourceVersion" String,
    "Generation" "generation" Int,
    "Labels" "labels" Map,
    "Annotations" "annotations" Map,
}

const SPEC: &[Member] = &[
    member("PriorityClassName", &["priorityClassName"], Kind::String),
    member("Domain", &["domain"], Kind::Struct(DOMAIN)),
    member("NodeSelector", &["nodeSelector"], Kind::Map),
    member("SchedulerName", &["schedulerName"], Kind::String),
    member("ServiceAccountName", &["serviceAccountName"], Kind::String),
    member("Hostname", &["hostname"], Kind::String),
    member("Subdomain", &["subdomain"], Kind::String),
    member("Architecture", &["architecture"], Kind::String),
];
const DOMAIN: &[Member] = &[
    member("CPU", &["cpu"], Kind::Pointer(CPU)),
    member("Machine", &["machine"], Kind::Pointer(MACHINE)),
    member("Firmware", &["firmware"], Kind::Pointer(FIRMWARE)),
    member("Chassis", &["chassis"], Kind::Pointer(CHASSIS)),
];
const CPU: &[Member] = &[
    member("Cores", &["cores"], Kind::Uint),
    member("Sockets", &["sockets"], Kind::Uint),
    member("MaxSockets", &["maxSockets"], Kind::Uint),
    member("Threads", &["threads"], Kind::Uint),
    member("Model", &["model"], Kind::String),
    member(
        "DedicatedCPUPlacement",
        &["dedicatedCpuPlacement"],
        Kind::Bool,
    ),
    member(
        "IsolateEmulatorThread",
        &["isolateEmulatorThread"],
        Kind::Bool,
    ),
];
const MACHINE: &[Member] = &[member("Type", &["type"], Kind::String)];
const FIRMWARE: &[Member] = &[
    member("UUID", &["uuid"], Kind::String),
    member("Serial", &["serial"], Kind::String),
];
const CHASSIS: &[Member] = &[
    member("Manufacturer", &["manufacturer"], Kind::String),
    member("Version", &["version"], Kind::String),
    member("Serial", &["serial"], Kind::String),
    member("Asset", &["asset"], Kind::String),
    member("Sku", &["sku"], Kind::String),
];
const STATUS: &[Member] = &[
    member("NodeName", &["nodeName"], Kind::String),
    member("Phase", &["phase"], Kind::String),
    member("RuntimeUser", &["runtimeUser"], Kind::Uint),
];

type EvalResult<T> = Result<T, NoValue>;

/// Whether the condition holds for the VMI.
fn condition_holds(expr: &Expr, vmi: &Json) -> EvalResult<bool> {
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

#[cfg(test)]
mod tests;
