//! Type-checks a parsed CEL expression, as CEL's own checker does, and converts it to the subset
//! that [`super::eval`] evaluates.

use cel::common::ast::{
    CallExpr, Expr as Ast, IdedExpr, LiteralValue, SelectExpr, operators as op,
};

use super::InvalidCondition;
use super::vmi_schema::{Kind, Member, VMI};

/// Deeper than the parser's own limit, for chains of operators, which do not nest.
const MAX_DEPTH: usize = 128;

/// A type-checked expression.
#[derive(Debug)]
pub(super) enum Expr {
    Literal(Value),
    /// A member of the VMI, by its path in the JSON.
    Read(JsonPath, Type),
    /// Whether a member is not zero.
    IsSet(JsonPath, Type),
    /// The value of a key. Evaluation fails without the key.
    Index(JsonPath, Box<Expr>),
    HasKey(JsonPath, Box<Expr>),
    Among(Box<Expr>, Vec<Expr>),
    Not(Box<Expr>),
    And(Box<Expr>, Box<Expr>),
    Or(Box<Expr>, Box<Expr>),
    If(Box<Expr>, Box<Expr>, Box<Expr>),
    Compare(Comparison, Box<Expr>, Box<Expr>),
    Text(TextTest, Box<Expr>, Box<Expr>),
    /// The number of characters of a text.
    Length(Box<Expr>),
    Keys(JsonPath),
}

/// A path in the JSON of the VMI.
pub(super) type JsonPath = Vec<&'static str>;

/// A value.
#[derive(Debug, Clone, PartialEq, PartialOrd)]
pub(super) enum Value {
    Bool(bool),
    Int(i64),
    Uint(u64),
    String(String),
}

/// The type of a value, or of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Type {
    Bool,
    Int,
    Uint,
    String,
    Pointer,
    Map,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TextTest {
    StartsWith,
    EndsWith,
    Contains,
}

/// A subexpression: a value, or a part of the path to a member.
enum Part {
    Value(Expr, Type),
    Map(JsonPath),
    Struct(JsonPath, &'static [Member]),
}

type TypeCheck<T> = Result<T, InvalidCondition>;

/// Checks a whole condition.
pub(super) fn condition(parsed: &IdedExpr) -> TypeCheck<Expr> {
    value_of(parsed, Type::Bool, 0)
}

fn no<T>(reason: impl Into<String>) -> TypeCheck<T> {
    Err(InvalidCondition(reason.into()))
}

fn value_of(parsed: &IdedExpr, wanted: Type, depth: usize) -> TypeCheck<Expr> {
    match value(parsed, depth)? {
        (expr, found) if found == wanted => Ok(expr),
        (_, found) => no(format!("a {found:?} stands where a {wanted:?} belongs")),
    }
}

fn value(parsed: &IdedExpr, depth: usize) -> TypeCheck<(Expr, Type)> {
    match part(parsed, depth)? {
        Part::Value(expr, found) => Ok((expr, found)),
        Part::Map(path) | Part::Struct(path, _) => {
            no(format!("{} is not a single value", path.join(".")))
        }
    }
}

fn part(parsed: &IdedExpr, depth: usize) -> TypeCheck<Part> {
    if depth > MAX_DEPTH {
        return no(format!("it is deeper than {MAX_DEPTH} operators"));
    }
    let depth = depth + 1;
    match &parsed.expr {
        Ast::Literal(literal) => self::literal(literal),
        Ast::Ident(name) if name == "vmi" => Ok(Part::Struct(JsonPath::new(), VMI)),
        Ast::Ident(name) => no(format!(
            "{name:?} is not known: conditions here are about vmi"
        )),
        Ast::Select(select) => self::select(select, depth),
        Ast::Call(call) => self::call(call, depth),
        Ast::Comprehension(_) => no("it has a loop (all, exists, map, filter)"),
        Ast::List(_) => no("a list stands elsewhere than after \"in\""),
        Ast::Map(_) => no("it makes a map"),
        Ast::Struct(made) => no(format!("it makes a {}", made.type_name)),
        Ast::Unspecified => no("it is empty"),
    }
}

fn literal(literal: &LiteralValue) -> TypeCheck<Part> {
    let (value, found) = match literal {
        LiteralValue::Boolean(value) => (Value::Bool(*value.inner()), Type::Bool),
        LiteralValue::Int(value) => (Value::Int(*value.inner()), Type::Int),
        LiteralValue::UInt(value) => (Value::Uint(*value.inner()), Type::Uint),
        LiteralValue::String(value) => (Value::String(value.inner().to_owned()), Type::String),
        LiteralValue::Bytes(_) => return no("it has a literal of bytes"),
        LiteralValue::Double(_) => return no("it has a number with a fraction"),
        LiteralValue::Null => return no("it has a null"),
    };
    Ok(Part::Value(Expr::Literal(value), found))
}

fn select(select: &SelectExpr, depth: usize) -> TypeCheck<Part> {
    let SelectExpr {
        operand,
        field,
        test,
    } = select;
    match part(operand, depth)? {
        Part::Value(..) => no(format!("{field:?} is asked of a single value")),
        // `m.key` is `m["key"]`.
        Part::Map(path) => {
            let key = Box::new(Expr::Literal(Value::String(field.clone())));
            Ok(if *test {
                Part::Value(Expr::HasKey(path, key), Type::Bool)
            } else {
                Part::Value(Expr::Index(path, key), Type::String)
            })
        }
        Part::Struct(path, members) => member(path, members, field, *test),
    }
}

fn member(
    mut path: JsonPath,
    members: &'static [Member],
    field: &str,
    test: bool,
) -> TypeCheck<Part> {
    let Some(member) = members.iter().find(|member| member.name == field) else {
        let inside = if path.is_empty() {
            "vmi".to_owned()
        } else {
            path.join(".")
        };
        return no(format!(
            "{field:?} of {inside} is not among what is known here"
        ));
    };
    path.extend(member.json);
    let found = match member.kind {
        Kind::String => Type::String,
        Kind::Bool => Type::Bool,
        Kind::Int => Type::Int,
        Kind::Uint => Type::Uint,
        Kind::Map => Type::Map,
        Kind::Pointer(_) => Type::Pointer,
        Kind::Struct(_) if test => return no(format!("has({field}) of what is always there")),
        Kind::Struct(members) => return Ok(Part::Struct(path, members)),
    };
    Ok(match member.kind {
        _ if test => Part::Value(Expr::IsSet(path, found), Type::Bool),
        Kind::Pointer(members) => Part::Struct(path, members),
        Kind::Map => Part::Map(path),
        _ => Part::Value(Expr::Read(path, found), found),
    })
}

fn call(call: &CallExpr, depth: usize) -> TypeCheck<Part> {
    let arguments: Vec<&IdedExpr> = call
        .target
        .as_deref()
        .into_iter()
        .chain(&call.args)
        .collect();
    let of_target = call.target.is_some();
    let bool_of = |parsed| value_of(parsed, Type::Bool, depth).map(Box::new);
    let (expr, found) = match (call.func_name.as_str(), of_target, arguments.as_slice()) {
        (op::LOGICAL_NOT, false, [one]) => (Expr::Not(bool_of(one)?), Type::Bool),
        (op::LOGICAL_AND, false, [a, b]) => (Expr::And(bool_of(a)?, bool_of(b)?), Type::Bool),
        (op::LOGICAL_OR, false, [a, b]) => (Expr::Or(bool_of(a)?, bool_of(b)?), Type::Bool),
        (op::CONDITIONAL, false, [which, yes, other]) => {
            let (yes, found) = value(yes, depth)?;
            let other = value_of(other, found, depth)?;
            (
                Expr::If(bool_of(which)?, Box::new(yes), Box::new(other)),
                found,
            )
        }
        (op::INDEX, false, [map, key]) => match part(map, depth)? {
            Part::Map(path) => {
                let key = value_of(key, Type::String, depth)?;
                (Expr::Index(path, Box::new(key)), Type::String)
            }
            _ => return no("[...] is asked of what is not a map"),
        },
        (op::IN, false, [what, whole]) => (among(what, whole, depth)?, Type::Bool),
        ("size", _, [one]) => (size(part(one, depth)?)?, Type::Int),
        (name, false, [a, b]) if comparison(name).is_some() => {
            (compare(comparison(name), a, b, depth)?, Type::Bool)
        }
        (name, true, [text, other]) if text_test(name).is_some() => {
            (test(text_test(name), text, other, depth)?, Type::Bool)
        }
        (name, ..) => return no(format!("it uses {:?}", name.trim_matches('_'))),
    };
    Ok(Part::Value(expr, found))
}

fn comparison(name: &str) -> Option<Comparison> {
    Some(match name {
        op::EQUALS => Comparison::Equal,
        op::NOT_EQUALS => Comparison::NotEqual,
        op::LESS => Comparison::Less,
        op::LESS_EQUALS => Comparison::LessOrEqual,
        op::GREATER => Comparison::Greater,
        op::GREATER_EQUALS => Comparison::GreaterOrEqual,
        _ => return None,
    })
}

/// Compares values of one type: KubeVirt's environment has no comparison across types.
fn compare(how: Option<Comparison>, a: &IdedExpr, b: &IdedExpr, depth: usize) -> TypeCheck<Expr> {
    let (a, found) = value(a, depth)?;
    let b = value_of(b, found, depth)?;
    match how {
        Some(how) => Ok(Expr::Compare(how, Box::new(a), Box::new(b))),
        None => no("it compares"),
    }
}

fn text_test(name: &str) -> Option<TextTest> {
    Some(match name {
        "startsWith" => TextTest::StartsWith,
        "endsWith" => TextTest::EndsWith,
        "contains" => TextTest::Contains,
        _ => return None,
    })
}

fn test(how: Option<TextTest>, text: &IdedExpr, other: &IdedExpr, depth: usize) -> TypeCheck<Expr> {
    let text = Box::new(value_of(text, Type::String, depth)?);
    let other = Box::new(value_of(other, Type::String, depth)?);
    match how {
        Some(how) => Ok(Expr::Text(how, text, other)),
        None => no("it tests a text"),
    }
}

fn among(what: &IdedExpr, whole: &IdedExpr, depth: usize) -> TypeCheck<Expr> {
    let (what, found) = value(what, depth)?;
    let Ast::List(list) = &whole.expr else {
        return match (part(whole, depth)?, found) {
            (Part::Map(path), Type::String) => Ok(Expr::HasKey(path, Box::new(what))),
            _ => no("\"in\" is followed by neither a map nor a list"),
        };
    };
    if !list.optional_indices.is_empty() {
        return no("a list with optional members");
    }
    let list = list.elements.iter();
    let list: TypeCheck<Vec<Expr>> = list.map(|one| value_of(one, found, depth)).collect();
    Ok(Expr::Among(Box::new(what), list?))
}

fn size(of: Part) -> TypeCheck<Expr> {
    match of {
        Part::Map(path) => Ok(Expr::Keys(path)),
        Part::Value(expr, Type::String) => Ok(Expr::Length(Box::new(expr))),
        _ => no("size of what has none"),
    }
}
