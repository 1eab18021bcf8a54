//! CEL as an API server evaluates it in admission policies.
//!
//! The `cel` crate parses and evaluates. Added here are the functions of Kubernetes' and cel-go's libraries that the
//! policies use, and object construction (`JSONPatch{...}`), which becomes a map after its fields are checked.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, LazyLock, Mutex};

use cel::common::ast::{
    EntryExpr, Expr, IdedEntryExpr, IdedExpr, LiteralValue, MapEntryExpr, MapExpr,
};
use cel::common::types::{CelBool, CelInt, CelString, LIST_TYPE, STRING_TYPE};
use cel::common::value::CowVal;
use cel::{Context, Env, ExecutionError, Value, extensions};
use serde_json::{Map, Value as Json};

/// The types that an expression may construct, with the JSON names of Kubernetes' fields. The API server constructs
/// objects with any field, and drops unknown ones.
const CONSTRUCTED: &[(&str, &[&str])] = &[
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

static ENV: LazyLock<Arc<Env>> = LazyLock::new(|| {
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

/// The variables of an expression, by name.
pub(crate) type Scope = BTreeMap<&'static str, Json>;

/// Expressions by their text: the tests evaluate each for many pods, and parsing takes longer than evaluating.
static PARSED: LazyLock<Mutex<HashMap<String, Arc<IdedExpr>>>> = LazyLock::new(Mutex::default);

/// Evaluates an expression. A failure is the evaluator's message.
pub(crate) fn evaluate(source: &str, scope: &Scope) -> Result<Json, String> {
    let expression = parse(source)?;
    let mut context = Context::with_env(Arc::clone(&ENV));
    for (name, value) in scope {
        context.add_variable_from_value(*name, cel::to_value(value).unwrap());
    }
    let value = Value::resolve(&expression, &context).map_err(|error| error.to_string())?;
    json(&value)
}

fn parse(source: &str) -> Result<Arc<IdedExpr>, String> {
    if let Some(parsed) = PARSED.lock().unwrap().get(source) {
        return Ok(Arc::clone(parsed));
    }
    let program = ENV
        .compile(source)
        .map_err(|errors| format!("{source}: {errors}"))?;
    let mut expression = program.expression().clone();
    construct_maps(&mut expression)?;
    let parsed = Arc::new(expression);
    PARSED
        .lock()
        .unwrap()
        .insert(source.to_owned(), Arc::clone(&parsed));
    Ok(parsed)
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
    if let Expr::Struct(constructed) = &mut expression.expr {
        let entries = fields(
            &constructed.type_name,
            std::mem::take(&mut constructed.entries),
        )?;
        expression.expr = Expr::Map(MapExpr { entries });
    }
    parts(&mut expression.expr)
        .into_iter()
        .try_for_each(construct_maps)
}

fn fields(name: &str, entries: Vec<IdedEntryExpr>) -> Result<Vec<IdedEntryExpr>, String> {
    let known = CONSTRUCTED.iter().find(|(known, _)| *known == name);
    let (_, fields) = known.ok_or_else(|| format!("what is a {name}?"))?;
    for entry in &entries {
        if let EntryExpr::StructField(field) = &entry.expr
            && !fields.contains(&field.field.as_str())
        {
            return Err(format!("{name} has no field {}", field.field));
        }
    }
    Ok(entries.into_iter().map(map_entry).collect())
}

/// The direct subexpressions.
fn parts(expression: &mut Expr) -> Vec<&mut IdedExpr> {
    match expression {
        Expr::Call(call) => call
            .target
            .as_deref_mut()
            .into_iter()
            .chain(&mut call.args)
            .collect(),
        Expr::Comprehension(it) => vec![
            &mut it.iter_range,
            &mut it.accu_init,
            &mut it.loop_cond,
            &mut it.loop_step,
            &mut it.result,
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

/// Kubernetes' `list.indexOf(value)`: -1 without the value.
fn index_of<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Result<CowVal<'b, 'v>, ExecutionError> {
    let list: Value = args[0].as_ref().try_into()?;
    let wanted: Value = args[1].as_ref().try_into()?;
    let Value::List(items) = list else {
        return Err(ExecutionError::function_error("indexOf", "not a list"));
    };
    let found = items.iter().position(|item| *item == wanted);
    Ok(CowVal::owned(CelInt::from(
        found.map_or(-1, |at| at as i64),
    )))
}

/// CEL's `matches`, which finds the pattern anywhere in the text.
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
    let pattern = regex::Regex::new(&pattern);
    let pattern = pattern.map_err(|error| ExecutionError::function_error("matches", error))?;
    Ok(CowVal::owned(CelBool::from(pattern.is_match(&text))))
}
