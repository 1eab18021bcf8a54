//! A request whose admission is evaluated.

use serde_json::{Value as Json, json};

use crate::cel_expression::Scope;

/// A request to create or update an object.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) object: Json,
    /// The object before the update; `None` if the request creates it.
    pub(crate) old: Option<Json>,
    pub(crate) namespace: Json,
}

impl Request {
    pub(crate) fn create(object: Json) -> Self {
        let namespace = json!({"kind": "Namespace", "metadata": {"name": "default"}});
        Self {
            object,
            old: None,
            namespace,
        }
    }

    pub(crate) fn operation(&self) -> &'static str {
        if self.old.is_some() {
            "UPDATE"
        } else {
            "CREATE"
        }
    }

    /// The variables of a policy's expressions that the request alone sets.
    pub(crate) fn scope(&self) -> Scope {
        let mut scope = Scope::new();
        scope.set("object", &self.object);
        scope.set("oldObject", self.old.as_ref().unwrap_or(&Json::Null));
        scope.set("request", &json!({"operation": self.operation()}));
        scope
    }
}
