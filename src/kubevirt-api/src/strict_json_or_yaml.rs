//! Reads manifests, in JSON and YAML. Keys that occur twice are refused: the last of them would silently win.

use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use serde_saphyr::{DuplicateKeyPolicy, Options};

/// Text that is neither JSON nor YAML, or with a repeated key.
#[derive(Debug, thiserror::Error)]
#[error("the VMI is not valid {format}: {message}")]
pub struct SyntaxError {
    /// `JSON` or `YAML`.
    pub format: &'static str,
    /// What the parser says, with the place.
    pub message: String,
}

/// The documents of a manifest; empty ones are left out.
///
/// # Errors
/// For text that is neither JSON nor YAML, and for repeated keys.
pub fn documents(text: &[u8]) -> Result<Vec<Value>, SyntaxError> {
    let read = if is_json(text) {
        json(text).map(|value| vec![value])
    } else {
        yaml(text)
    };
    let mut documents = read?;
    documents.retain(|document| !document.is_null());
    Ok(documents)
}

/// Whether the text of a manifest is JSON: an object. Everything else is read as YAML.
pub(crate) fn is_json(text: &[u8]) -> bool {
    text.trim_ascii_start().starts_with(b"{")
}

fn json(text: &[u8]) -> Result<Value, SyntaxError> {
    let read = serde_json::from_slice::<Unique>(text);
    read.map(|unique| unique.0).map_err(|error| SyntaxError {
        format: "JSON",
        message: error.to_string(),
    })
}

fn yaml(text: &[u8]) -> Result<Vec<Value>, SyntaxError> {
    let read = serde_saphyr::from_slice_multiple_with_options::<Unique>(text, yaml_options());
    let read = read.map_err(|error| SyntaxError {
        format: "YAML",
        message: plain_message(error.to_string()),
    });
    Ok(read?.into_iter().map(|unique| unique.0).collect())
}

/// A message of the parser without the words of its own source.
fn plain_message(message: String) -> String {
    let plain = [
        (
            "AnchorEvents",
            "its aliases stand for more than is read here",
        ),
        ("budget breached", "it has more values than are read here"),
        ("recursion limit exceeded", "it is nested too deeply"),
    ];
    let found = plain.iter().find(|(word, _)| message.contains(word));
    match (found, message.find(" at line ")) {
        (Some((_, ours)), Some(at)) => format!("{ours}{}", &message[at..]),
        (Some((_, ours)), None) => (*ours).to_owned(),
        (None, _) => message,
    }
}

/// Words are read as kubectl does, by YAML 1.1: `yes` and `on` are true, `0644` is octal.
fn yaml_options() -> Options {
    let budget = serde_saphyr::budget! {
        max_events: 20_000_000,
        max_nodes: 10_000_000,
        max_documents: 100_000,
    };
    serde_saphyr::options! {
        budget: budget,
        // The keys are compared below, so that JSON and YAML say the same.
        duplicate_keys: DuplicateKeyPolicy::LastWins,
        legacy_octal_numbers: true,
        with_snippet: false,
    }
}

/// A JSON tree without repeated keys.
struct Unique(Value);

impl<'de> Deserialize<'de> for Unique {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        UniqueSeed.deserialize(deserializer).map(Self)
    }
}

struct UniqueSeed;

impl<'de> DeserializeSeed<'de> for UniqueSeed {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for UniqueSeed {
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
        while let Some(element) = elements.next_element_seed(UniqueSeed)? {
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
            let value = fields.next_value_seed(UniqueSeed)?;
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}
