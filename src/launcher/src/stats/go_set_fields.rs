//! JSON fields with Go's `Set` booleans: a value `X` comes with `XSet`.

use serde_json::{Map, Value};

/// A Go struct of values with `Set` booleans, in the order in which they are put.
pub(super) struct SetFields(Map<String, Value>);

impl SetFields {
    pub(super) fn new() -> Self {
        SetFields(Map::new())
    }

    /// An integer; zero when it is not set.
    pub(super) fn number(self, name: &str, value: Option<impl Into<Value>>) -> Self {
        self.put(name, value, 0.into())
    }

    /// A text; empty when it is not set.
    pub(super) fn text(self, name: &str, value: Option<&str>) -> Self {
        self.put(name, value, "".into())
    }

    pub(super) fn put(mut self, name: &str, value: Option<impl Into<Value>>, zero: Value) -> Self {
        self.0.insert(format!("{name}Set"), value.is_some().into());
        self.0
            .insert(name.to_owned(), value.map_or(zero, Into::into));
        self
    }

    /// A value without a `Set` boolean.
    pub(super) fn plain(mut self, name: &str, value: &str) -> Self {
        self.0.insert(name.to_owned(), value.into());
        self
    }

    pub(super) fn done(self) -> Value {
        Value::Object(self.0)
    }
}
