//! Parses manifests in JSON or YAML. A repeated key is an error, because otherwise the last one would silently win.

use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use serde_saphyr::{DuplicateKeyPolicy, Options};

/// The error for text that is neither JSON nor YAML, or has a repeated key.
#[derive(Debug, thiserror::Error)]
#[error("the VMI is not valid {format}: {message}")]
pub struct SyntaxError {
    /// `JSON` or `YAML`.
    pub format: &'static str,
    /// The parser's message, with line and column.
    pub message: String,
}

/// The documents of a manifest, without empty ones.
///
/// # Errors
/// For text that is neither JSON nor YAML, and for repeated keys.
pub fn documents(text: &[u8]) -> Result<Vec<Value>, SyntaxError> {
    let mut documents = if is_json(text) {
        vec![parse_json(text)?]
    } else {
        parse_yaml(text)?
    };
    documents.retain(|document| !document.is_null());
    Ok(documents)
}

/// Whether the text of a manifest is a JSON object. Everything else is parsed as YAML.
pub(crate) fn is_json(text: &[u8]) -> bool {
    text.trim_ascii_start().starts_with(b"{")
}

fn parse_json(text: &[u8]) -> Result<Value, SyntaxError> {
    let tree = serde_json::from_slice::<UniqueKeyTree>(text);
    tree.map(|tree| tree.0).map_err(|error| SyntaxError {
        format: "JSON",
        message: error.to_string(),
    })
}

fn parse_yaml(text: &[u8]) -> Result<Vec<Value>, SyntaxError> {
    let trees =
        serde_saphyr::from_slice_multiple_with_options::<UniqueKeyTree>(text, yaml_options());
    let trees = trees.map_err(|error| SyntaxError {
        format: "YAML",
        message: plain_message(error.to_string()),
    });
    Ok(trees?.into_iter().map(|tree| tree.0).collect())
}

/// The parser's message without names from its source code.
fn plain_message(message: String) -> String {
    let replacements = [
        (
            "AnchorEvents",
            "its aliases stand for more than is read here",
        ),
        ("budget breached", "it has more values than are read here"),
        ("recursion limit exceeded", "it is nested too deeply"),
    ];
    let replacement = replacements.iter().find(|(word, _)| message.contains(word));
    match (replacement, message.find(" at line ")) {
        (Some((_, plain)), Some(at)) => format!("{plain}{}", &message[at..]),
        (Some((_, plain)), None) => (*plain).to_owned(),
        (None, _) => message,
    }
}

/// Plain scalars are parsed as by kubectl, which follows YAML 1.1: `yes` and `on` are true, `0644` is octal.
fn yaml_options() -> Options {
    let budget = serde_saphyr::budget! {
        max_events: 20_000_000,
        max_nodes: 10_000_000,
        max_documents: 100_000,
    };
    serde_saphyr::options! {
        budget: budget,
        // `UniqueKeyTree` detects repeated keys, so that the errors for JSON and YAML are the same.
        duplicate_keys: DuplicateKeyPolicy::LastWins,
        legacy_octal_numbers: true,
        with_snippet: false,
    }
}

/// A JSON tree without repeated keys.
struct UniqueKeyTree(Value);

impl<'de> Deserialize<'de> for UniqueKeyTree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        UniqueKeySeed.deserialize(deserializer).map(Self)
    }
}

struct UniqueKeySeed;

impl<'de> DeserializeSeed<'de> for UniqueKeySeed {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for UniqueKeySeed {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value of JSON")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(element) = elements.next_element_seed(UniqueKeySeed)? {
            list.push(element);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = fields.next_key::<String>()? {
            if map.contains_key(&key) {
                return Err(A::Error::custom(format!("the key {key:?} is repeated")));
            }
            let value = fields.next_value_seed(UniqueKeySeed)?;
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}
