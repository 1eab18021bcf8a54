//! JSON values in the SDK's API, so that no other crate's version is part of it.

use std::fmt;

use serde_core::{Serialize, Serializer};

/// A JSON value, made with [`json!`](crate::json!) or [`From`].
#[derive(Debug, Clone, PartialEq)]
pub struct Value(serde_json::Value);

/// For [`json!`](crate::json!); not part of the API.
pub fn value_of(value: serde_json::Value) -> Value {
    Value(value)
}

impl Value {
    pub(crate) fn as_serde_json(&self) -> &serde_json::Value {
        &self.0
    }
}

/// The JSON text.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// So that a value can stand inside [`json!`](crate::json!).
impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

macro_rules! from {
    ($($type:ty),+) => {
        $(impl From<$type> for Value {
            fn from(value: $type) -> Value {
                Value(value.into())
            }
        })+
    };
}

from!(&str, String, bool, i32, i64, u32, u64);

/// Makes a [`Value`] from JSON syntax, with Rust expressions as values.
///
/// ```
/// let queues = 4;
/// let value = hooks_sdk::json!({"driver": {"queues": queues}, "tags": ["a", "b"]});
/// assert_eq!(value.to_string(), r#"{"driver":{"queues":4},"tags":["a","b"]}"#);
/// ```
#[macro_export]
macro_rules! json {
    ($($json:tt)+) => {
        $crate::__private::value_of($crate::__private::serde_json::json!($($json)+))
    };
}
