//! Type-checks a parsed CEL expression, as CEL's own checker does, and converts it to the typed expression
//! that [`super::eval`] evaluates.

use cel::common::ast::{
    CallExpr, Expr as Ast, IdedExpr, LiteralValue, SelectExpr, operators as op,
};

use super::InvalidCondition;
use super::typed_expression::{Comparison, Expr, JsonPath, TextTest, Type, Value};
use super::vmi_schema::{Kind, Member, VMI};

/// Maximum depth of operators. It is larger than the parser's limit on brackets, because a chain of operators is deep
/// without brackets.
const MAX_DEPTH: usize = 128;

/// A type-checked subexpression: a value, a map of the VMI, or a struct whose members can be selected.
enum Part {
    Value(Expr, Type),
    Map(JsonPath),
    Struct(JsonPath, &'static [Member]),
}

type TypeCheck<T> = Result<T, InvalidCondition>;

/// Type-checks a whole condition, which must be a bool.
pub(super) fn check_condition(parsed: &IdedExpr) -> TypeCheck<Expr> {
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
    if depth > MAX_DEPTH {
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
