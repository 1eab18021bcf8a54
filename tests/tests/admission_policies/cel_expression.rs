//! Evaluates CEL expressions as an API server does in admission policies.
//!
//! The `cel` crate parses and evaluates. This module adds the functions of Kubernetes' and cel-go's libraries that the
//! policies use, and object construction (`JSONPatch{...}`), which is replaced by a map after its fields are checked.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex};

use cel::common::ast::{
    EntryExpr, Expr, IdedEntryExpr, IdedExpr, LiteralValue, MapEntryExpr, MapExpr,
};
use cel::common::types::{CelBool, CelInt, CelString, LIST_TYPE, STRING_TYPE};
use cel::common::value::CowVal;
use cel::{Context, Env, ExecutionError, Value, extensions};
use regex::Regex;
use serde_json::{Map, Value as Json};

/// The types that an expression may construct, with the JSON names of their fields in Kubernetes. The API server itself
/// accepts any field and drops unknown ones, so that this list finds misspelled fields.
const CONSTRUCTIBLE_TYPES: &[(&str, &[&str])] = &[
    ("JSONPatch", &["op", "path", "value"]),
    (
        "Object.spec.volumes",
        &[
            "name",
            "image",
            "configMap",
            "persistentVolumeClaim",
            "downwardAPI",
        ],
    ),
    ("Object.spec.volumes.image", &["reference", "pullPolicy"]),
    ("Object.spec.volumes.configMap", &["name", "defaultMode"]),
    (
        "Object.spec.volumes.persistentVolumeClaim",
        &["claimName", "readOnly"],
    ),
    ("Object.spec.volumes.downwardAPI", &["defaultMode", "items"]),
    (
        "Object.spec.volumes.downwardAPI.items",
        &["path", "fieldRef"],
    ),
    (
        "Object.spec.volumes.downwardAPI.items.fieldRef",
        &["fieldPath"],
    ),
    (
        "Object.spec.containers.volumeMounts",
        &["name", "mountPath", "subPath", "readOnly"],
    ),
];

static ENVIRONMENT: LazyLock<Arc<Env>> = LazyLock::new(|| {
    let mut env = Env::stdlib();
    env.add_extension(extensions::strings).unwrap();
    env.add_member_overload(
        "indexOf",
        "list_index_of",
        LIST_TYPE,
        vec![STRING_TYPE],
        index_of,
    )
    .unwrap();
    env.add_member_overload(
        "matches",
        "matches",
        STRING_TYPE,
        vec![STRING_TYPE],
        matches,
    )
    .unwrap();
    Arc::new(env)
});

/// Parsed expressions by their text: the tests evaluate each for many pods, and parsing takes longer than evaluation.
static PARSE_CACHE: LazyLock<Mutex<HashMap<String, Arc<IdedExpr>>>> = LazyLock::new(Mutex::default);

/// The variables of expressions. They are converted once: that takes longer than the evaluation of most expressions.
pub(crate) struct Scope(Context<'static, 'static>);

impl Scope {
    pub(crate) fn new() -> Self {
        Self(Context::with_env(Arc::clone(&ENVIRONMENT)))
    }

    /// Adds a variable, or replaces its value.
    pub(crate) fn set(&mut self, name: &str, value: &Json) {
        self.0.add_variable_from_value(name, cel_value(value));
    }

    /// Adds a variable with these members, or replaces it.
    pub(crate) fn set_members(&mut self, name: &str, members: &HashMap<String, Value>) {
        self.0
            .add_variable_from_value(name, Value::Map(members.clone().into()));
    }

    /// Evaluates an expression. The error is the evaluator's message.
    pub(crate) fn evaluate(&self, source: &str) -> Result<Json, String> {
        json(&self.value(source)?)
    }

    /// Evaluates an expression whose value is only used by others.
    pub(crate) fn value(&self, source: &str) -> Result<Value, String> {
        let expression = parse(source)?;
        Value::resolve(&expression, &self.0).map_err(|error| error.to_string())
    }
}

fn parse(source: &str) -> Result<Arc<IdedExpr>, String> {
    if let Some(parsed) = PARSE_CACHE.lock().unwrap().get(source) {
        return Ok(Arc::clone(parsed));
    }
    let program = ENVIRONMENT
        .compile(source)
        .map_err(|errors| format!("{source}: {errors}"))?;
    let mut expression = program.expression().clone();
    construct_maps(&mut expression)?;
    let parsed = Arc::new(expression);
    PARSE_CACHE
        .lock()
        .unwrap()
        .insert(source.to_owned(), Arc::clone(&parsed));
    Ok(parsed)
}

/// JSON as a value. Its whole numbers are signed ones, which CEL does not mix with unsigned ones.
fn cel_value(json: &Json) -> Value {
    match json {
        Json::Null => Value::Null,
        Json::Bool(truth) => Value::Bool(*truth),
        Json::Number(number) => match number.as_i64() {
            Some(number) => Value::Int(number),
            None => Value::Float(number.as_f64().unwrap()),
        },
        Json::String(text) => Value::String(Arc::new(text.clone())),
        Json::Array(items) => Value::List(Arc::new(items.iter().map(cel_value).collect())),
        Json::Object(members) => {
            let members = members.iter();
            let members = members.map(|(name, member)| (name.clone(), cel_value(member)));
            Value::Map(members.collect::<HashMap<_, _>>().into())
        }
    }
}

fn json(value: &Value) -> Result<Json, String> {
    Ok(match value {
        Value::List(items) => Json::Array(items.iter().map(json).collect::<Result<_, _>>()?),
        Value::Map(entries) => {
            let entries = entries.map.iter();
            let entries = entries.map(|(key, value)| Ok((key.to_string(), json(value)?)));
            Json::Object(entries.collect::<Result<Map<_, _>, String>>()?)
        }
        Value::Int(number) => (*number).into(),
        Value::UInt(number) => (*number).into(),
        Value::String(text) => text.as_str().into(),
        Value::Bool(truth) => (*truth).into(),
        Value::Null => Json::Null,
        other => return Err(format!("{other:?} is no JSON")),
    })
}

/// Replaces each constructed object by a map of its fields.
fn construct_maps(expression: &mut IdedExpr) -> Result<(), String> {
    if let Expr::Struct(object) = &mut expression.expr {
        let entries = map_entries(&object.type_name, std::mem::take(&mut object.entries))?;
        expression.expr = Expr::Map(MapExpr { entries });
    }
    subexpressions(&mut expression.expr)
        .into_iter()
        .try_for_each(construct_maps)
}

fn map_entries(name: &str, entries: Vec<IdedEntryExpr>) -> Result<Vec<IdedEntryExpr>, String> {
    let type_fields = CONSTRUCTIBLE_TYPES
        .iter()
        .find(|(type_fields, _)| *type_fields == name);
    let (_, map_entries) = type_fields.ok_or_else(|| format!("what is a {name}?"))?;
    for entry in &entries {
        if let EntryExpr::StructField(field) = &entry.expr
            && !map_entries.contains(&field.field.as_str())
        {
            return Err(format!("{name} has no field {}", field.field));
        }
    }
    Ok(entries.into_iter().map(map_entry).collect())
}

/// The direct subexpressions.
fn subexpressions(expression: &mut Expr) -> Vec<&mut IdedExpr> {
    match expression {
        Expr::Call(call) => call
            .target
            .as_deref_mut()
            .into_iter()
            .chain(&mut call.args)
            .collect(),
        Expr::Comprehension(comprehension) => vec![
            &mut comprehension.iter_range,
            &mut comprehension.accu_init,
            &mut comprehension.loop_cond,
            &mut comprehension.loop_step,
            &mut comprehension.result,
        ],
        Expr::List(list) => list.elements.iter_mut().collect(),
        Expr::Select(select) => vec![&mut select.operand],
        Expr::Map(map) => {
            let values = map
                .entries
                .iter_mut()
                .filter_map(|entry| match &mut entry.expr {
                    EntryExpr::MapEntry(entry) => Some(&mut entry.value),
                    EntryExpr::StructField(_) => None,
                });
            values.collect()
        }
        Expr::Struct(_) | Expr::Ident(_) | Expr::Literal(_) | Expr::Unspecified => Vec::new(),
    }
}

fn map_entry(entry: IdedEntryExpr) -> IdedEntryExpr {
    let EntryExpr::StructField(field) = entry.expr else {
        return entry;
    };
    let key = Expr::Literal(LiteralValue::String(CelString::from(field.field)));
    let key = IdedExpr {
        id: entry.id,
        expr: key,
    };
    let expr = EntryExpr::MapEntry(MapEntryExpr {
        key,
        value: field.value,
        optional: field.optional,
    });
    IdedEntryExpr { id: entry.id, expr }
}

/// Kubernetes' `list.indexOf(value)`: -1 if the list lacks the value.
fn index_of<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Result<CowVal<'b, 'v>, ExecutionError> {
    let list: Value = args[0].as_ref().try_into()?;
    let searched: Value = args[1].as_ref().try_into()?;
    let Value::List(items) = list else {
        return Err(ExecutionError::function_error("indexOf", "not a list"));
    };
    let index = items.iter().position(|item| *item == searched);
    Ok(CowVal::owned(CelInt::from(
        index.map_or(-1, |at| at as i64),
    )))
}

/// CEL's `matches`, which searches the pattern anywhere in the text.
fn matches<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Result<CowVal<'b, 'v>, ExecutionError> {
    let text = |at: usize| {
        args[at]
            .as_ref()
            .downcast_ref::<CelString<'_>>()
            .map(|text| text.inner().to_owned())
    };
    let (Some(text), Some(pattern)) = (text(0), text(1)) else {
        return Err(ExecutionError::function_error("matches", "not a text"));
    };
    let pattern = compiled(pattern)?;
    Ok(CowVal::owned(CelBool::from(pattern.is_match(&text))))
}

/// The pattern, compiled at its first use: each policy is evaluated for many pods.
fn compiled(pattern: String) -> Result<Regex, ExecutionError> {
    static COMPILED: LazyLock<Mutex<HashMap<String, Regex>>> = LazyLock::new(Mutex::default);
    let mut compiled = COMPILED.lock().unwrap();
    if let Some(known) = compiled.get(&pattern) {
        return Ok(known.clone());
    }
    let regex =
        Regex::new(&pattern).map_err(|error| ExecutionError::function_error("matches", error))?;
    compiled.insert(pattern, regex.clone());
    Ok(regex)
}
