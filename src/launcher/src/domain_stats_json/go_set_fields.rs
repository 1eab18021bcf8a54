//! JSON fields with KubeVirt's `Set` booleans: a value `X` has a boolean `XSet`.

use serde_json::{Map, Value};

/// The fields of a JSON object, in the order in which they are added.
pub(super) struct SetFields(Map<String, Value>);

impl SetFields {
    pub(super) fn new() -> Self {
        SetFields(Map::new())
    }

    /// Adds a number; zero if there is no value.
    pub(super) fn number(self, name: &str, value: Option<impl Into<Value>>) -> Self {
        self.put(name, value, 0.into())
    }

    /// Adds a text; empty if there is no value.
    pub(super) fn text(self, name: &str, value: Option<&str>) -> Self {
        self.put(name, value, "".into())
    }

    /// Adds a value; `zero` if there is none.
    pub(super) fn put(mut self, name: &str, value: Option<impl Into<Value>>, zero: Value) -> Self {
        self.0.insert(format!("{name}Set"), value.is_some().into());
        self.0
            .insert(name.to_owned(), value.map_or(zero, Into::into));
        self
    }

    /// Adds a value without a `Set` boolean.
    pub(super) fn plain(mut self, name: &str, value: &str) -> Self {
        self.0.insert(name.to_owned(), value.into());
        self
    }

    /// The JSON object.
    pub(super) fn done(self) -> Value {
        Value::Object(self.0)
    }
}
