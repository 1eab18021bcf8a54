//! A part of a VMI, as JSON.

use std::fmt;

use quantity::Quantity;
use serde_core::de::Deserialize;

use super::error::ErrorKind;
use super::{Vmi, VmiError, json_scan};
use crate::dotted_path::{self, Step};

/// A part of a VMI, parsed lazily.
#[derive(Clone, Copy)]
pub struct Json<'v> {
    pub(super) vmi: &'v Vmi,
    pub(super) raw: &'v str,
}

impl fmt::Debug for Json<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.raw)
    }
}

impl<'v> Json<'v> {
    /// Its JSON text.
    pub fn raw(self) -> &'v str {
        self.raw
    }

    /// The value at a path from here; see [`Vmi::get`]. If the path is invalid, the hook fails at the end of the call.
    pub fn get(self, path: &str) -> Option<Json<'v>> {
        match dotted_path::steps(path) {
            Some(steps) => self.walk(&steps),
            None => {
                self.vmi.note(ErrorKind::InvalidPath(path.to_owned()));
                None
            }
        }
    }

    pub(super) fn walk(self, steps: &[Step<'_>]) -> Option<Json<'v>> {
        let direct = steps
            .iter()
            .position(|step| matches!(step, Step::Where(..)))
            .unwrap_or(steps.len());
        let found = self
            .vmi
            .readable(json_scan::find(self.raw, &steps[..direct]))??;
        let value = Json { raw: found, ..self };
        match steps[direct..].split_first() {
            Some((Step::Where(name, expected), rest)) => {
                let name = [Step::Member(name)];
                let has_value =
                    |item: &Json<'v>| item.walk(&name).and_then(Json::as_str) == Some(*expected);
                value.items().find(has_value)?.walk(rest)
            }
            _ => Some(value),
        }
    }

    /// The items of a list; empty if it is not a list.
    pub fn items(self) -> impl Iterator<Item = Json<'v>> {
        self.inside('[').map(|(_, item)| item)
    }

    /// The members of an object with their names; empty if it is not an object.
    pub fn members(self) -> impl Iterator<Item = (&'v str, Json<'v>)> {
        self.inside('{')
    }

    fn inside(self, open: char) -> impl Iterator<Item = (&'v str, Json<'v>)> {
        let is_there = self.raw.trim_start().starts_with(open);
        let inside = is_there.then(|| self.vmi.readable(json_scan::inside(self.raw)));
        let inside = inside.flatten().into_iter().flatten();
        inside.map(move |(name, raw)| (self.vmi.keep(name), Json { raw, ..self }))
    }

    /// The text, if it is a string.
    pub fn as_str(self) -> Option<&'v str> {
        if !self.raw.starts_with('"') {
            return None;
        }
        let text = self.vmi.readable(json_scan::text(self.raw))?;
        Some(self.vmi.keep(text))
    }

    /// The integer, if it is one.
    pub fn as_i64(self) -> Option<i64> {
        self.raw.parse().ok()
    }

    /// The value of a Kubernetes quantity (`2Gi`, `500m`, or a plain number), rounded
    /// up to an integer. Kubernetes' largest quantity is 2^63-1.
    pub fn as_quantity(self) -> Option<u64> {
        let quantity = Quantity::parse(self.as_str().unwrap_or(self.raw)).ok()?;
        quantity.bytes().ok()
    }

    /// The value of a Kubernetes quantity in thousandths, rounded up: 500 for the CPU request `500m`. `None` for a
    /// negative one, too.
    pub fn as_milli_quantity(self) -> Option<u64> {
        let quantity = Quantity::parse(self.as_str().unwrap_or(self.raw)).ok()?;
        u64::try_from(quantity.milli_value()).ok()
    }

    /// The boolean, if it is one.
    pub fn as_bool(self) -> Option<bool> {
        self.raw.parse().ok()
    }

    /// The whole value as any type that implements serde's `Deserialize`.
    ///
    /// ```
    /// # use hooks_sdk::Vmi;
    /// let vmi = Vmi::new(r#"{"spec":{"volumes":[{"name":"root"}]}}"#);
    /// let volumes: Vec<std::collections::HashMap<String, String>> = vmi.get("spec.volumes").unwrap().read()?;
    /// assert_eq!(volumes[0]["name"], "root");
    /// # Ok::<(), hooks_sdk::VmiError>(())
    /// ```
    ///
    /// # Errors
    /// If the value is not one of that type; with its position in the text.
    pub fn read<T: Deserialize<'v>>(self) -> Result<T, VmiError> {
        serde_json::from_str(self.raw)
            .map_err(|error| VmiError(ErrorKind::Unreadable(error.to_string())))
    }
}
