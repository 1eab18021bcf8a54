//! A type-checked CEL expression about the VMI.

use cel::common::ast::operators as op;

/// A type-checked expression.
#[derive(Debug)]
pub(super) enum Expr {
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
pub(super) type JsonPath = Vec<&'static str>;

/// A value in CEL.
#[derive(Debug, Clone, PartialEq, PartialOrd)]
pub(super) enum Value {
    Bool(bool),
    Int(i64),
    Uint(u64),
    String(String),
}

/// The type of a value or of a member.
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

impl Comparison {
    /// The comparison of an operator in the parsed expression.
    pub(super) fn from_operator(name: &str) -> Option<Self> {
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
    pub(super) fn from_function(name: &str) -> Option<Self> {
        Some(match name {
            "startsWith" => Self::StartsWith,
            "endsWith" => Self::EndsWith,
            "contains" => Self::Contains,
            _ => return None,
        })
    }
}
