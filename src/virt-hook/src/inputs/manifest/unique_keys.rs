//! Reads JSON and YAML, and refuses keys that occur twice: the last of them would silently win.

use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Text that is neither JSON nor YAML, or with a repeated key.
#[derive(Debug, thiserror::Error)]
#[error("the VMI is not valid {format}: {message}")]
pub(crate) struct SyntaxError {
    format: &'static str,
    message: String,
}

/// The documents of a text; empty ones are left out.
pub(super) fn documents(bytes: &[u8]) -> Result<Vec<Value>, SyntaxError> {
    let read = if bytes.trim_ascii_start().starts_with(b"{") {
        json(bytes).map(|value| vec![value])
    } else {
        yaml(bytes)
    };
    let mut documents = read?;
    documents.retain(|document| !document.is_null());
    Ok(documents)
}

fn json(bytes: &[u8]) -> Result<Value, SyntaxError> {
    let read = serde_json::from_slice::<Unique>(bytes);
    read.map(|unique| unique.0).map_err(|error| SyntaxError {
        format: "JSON",
        message: error.to_string(),
    })
}

fn yaml(bytes: &[u8]) -> Result<Vec<Value>, SyntaxError> {
    let documents = serde_norway::Deserializer::from_slice(bytes);
    let read: Result<Vec<Unique>, _> = documents.map(Unique::deserialize).collect();
    let read = read.map_err(|error| SyntaxError {
        format: "YAML",
        message: error.to_string(),
    });
    Ok(read?.into_iter().map(|unique| unique.0).collect())
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
