//! The VMI: typed accessors for common fields, paths for all others.

mod error;
mod json;
mod json_scan;
mod spec_and_owner_fields;
#[cfg(test)]
mod tests;
mod volumes_networks_and_devices;

use std::borrow::Cow;
use std::cell::OnceCell;
use std::fmt;

use elsa::FrozenVec;

use crate::dotted_path::Step;

use error::ErrorKind;

pub use error::VmiError;
pub use json::Json;
pub use volumes_networks_and_devices::{Disk, HostDevice, Interface, Network, Volume};

/// The virtual machine instance, read-only.
///
/// It is parsed lazily: reading one annotation is one scan of the text, up to it.
///
/// ```
/// # use hooks_sdk::Vmi;
/// let vmi = Vmi::new(r#"{"metadata":{"name":"vm","labels":{"team":"a"}},"spec":{"domain":{"cpu":{"cores":2}}}}"#);
/// assert_eq!(vmi.name(), "vm");
/// assert_eq!(vmi.label("team"), Some("a"));
/// assert_eq!(vmi.number("spec.domain.cpu.cores"), Some(2));
/// ```
#[derive(Clone)]
pub struct Vmi {
    raw: String,
    /// Unescaped texts.
    unescaped: FrozenVec<String>,
    parse_error: OnceCell<VmiError>,
}

impl fmt::Debug for Vmi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Vmi").field(&self.raw).finish()
    }
}

impl Vmi {
    /// A VMI from its JSON, which is not parsed yet. If it turns out to be invalid, accessors return
    /// `None`, and the hook fails at its end with the place in the text.
    pub fn new(json: impl Into<String>) -> Vmi {
        Vmi {
            raw: json.into(),
            unescaped: FrozenVec::new(),
            parse_error: OnceCell::new(),
        }
    }

    /// The original text.
    pub fn raw_json(&self) -> &str {
        &self.raw
    }

    /// The whole VMI.
    pub fn json(&self) -> Json<'_> {
        Json {
            vmi: self,
            raw: &self.raw,
        }
    }

    /// The first error so far: of the text, or of a path that an accessor was given. A hook need not check it: the SDK
    /// does at the end of the call.
    pub fn parse_error(&self) -> Option<&VmiError> {
        let is_object = self.raw.trim_start().starts_with('{');
        if !is_object {
            self.note(ErrorKind::Unreadable("it is not a JSON object".to_owned()));
        }
        self.parse_error.get()
    }

    fn note(&self, error: ErrorKind) {
        // The first error explains later ones.
        let _ = self.parse_error.set(VmiError(error));
    }

    fn readable<T>(&self, read: Result<T, json_scan::JsonSyntaxError>) -> Option<T> {
        let note = |error: json_scan::JsonSyntaxError| {
            self.note(ErrorKind::Unreadable(error.to_string()));
        };
        read.map_err(note).ok()
    }

    fn keep<'v>(&'v self, text: Cow<'v, str>) -> &'v str {
        match text {
            Cow::Borrowed(text) => text,
            Cow::Owned(text) => self.unescaped.push_get(text),
        }
    }

    /// The VMI's name; empty if there is none.
    pub fn name(&self) -> &str {
        self.text("metadata.name").unwrap_or_default()
    }

    /// The VMI's namespace; empty if there is none.
    pub fn namespace(&self) -> &str {
        self.text("metadata.namespace").unwrap_or_default()
    }

    /// The VMI's uid; empty if there is none.
    pub fn uid(&self) -> &str {
        self.text("metadata.uid").unwrap_or_default()
    }

    /// The value of an annotation.
    pub fn annotation(&self, name: &str) -> Option<&str> {
        self.entry("annotations", name)
    }

    /// All annotations.
    pub fn annotations(&self) -> impl Iterator<Item = (&str, &str)> {
        self.texts("metadata.annotations")
    }

    /// The value of a label.
    pub fn label(&self, name: &str) -> Option<&str> {
        self.entry("labels", name)
    }

    /// All labels.
    pub fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        self.texts("metadata.labels")
    }

    fn entry(&self, map: &str, name: &str) -> Option<&str> {
        let steps = [
            Step::Member("metadata"),
            Step::Member(map),
            Step::Member(name),
        ];
        self.json().walk(&steps)?.as_str()
    }

    fn texts(&self, path: &str) -> impl Iterator<Item = (&str, &str)> {
        let members = self.get(path).into_iter().flat_map(Json::members);
        members.filter_map(|(name, value)| Some((name, value.as_str()?)))
    }

    /// The value at a path: names joined by dots, `[0]` for an item of a list, `['a.b/c']` for a
    /// name with dots, `[name=root]` for the item of a list with that member. An invalid path is `None`, and the hook
    /// fails at the end of the call.
    ///
    /// ```
    /// # let vmi = hooks_sdk::Vmi::new(r#"{"spec":{"volumes":[{"name":"root","emptyDisk":{"capacity":"1Gi"}}]}}"#);
    /// assert_eq!(vmi.text("spec.volumes[name=root].emptyDisk.capacity"), Some("1Gi"));
    /// assert!(vmi.get("spec.volumes[1]").is_none());
    /// ```
    pub fn get(&self, path: &str) -> Option<Json<'_>> {
        self.json().get(path)
    }

    /// The text at a path; `None` if there is no text.
    pub fn text(&self, path: &str) -> Option<&str> {
        self.get(path)?.as_str()
    }

    /// The integer at a path; `None` if there is no integer.
    pub fn number(&self, path: &str) -> Option<i64> {
        self.get(path)?.as_i64()
    }

    /// The value of the Kubernetes quantity at a path, rounded up to an integer;
    /// `None` if there is no quantity, or a negative one.
    pub fn quantity(&self, path: &str) -> Option<u64> {
        self.get(path)?.as_quantity()
    }

    /// The value of the Kubernetes quantity at a path in thousandths, rounded up; `None` if there is no quantity, or a
    /// negative one.
    ///
    /// ```
    /// # let vmi = hooks_sdk::Vmi::new(r#"{"spec":{"domain":{"resources":{"requests":{"cpu":"500m"}}}}}"#);
    /// let cpu = "spec.domain.resources.requests.cpu";
    /// assert_eq!(vmi.milli_quantity(cpu), Some(500));
    /// assert_eq!(vmi.quantity(cpu), Some(1));
    /// ```
    pub fn milli_quantity(&self, path: &str) -> Option<u64> {
        self.get(path)?.as_milli_quantity()
    }

    /// Whether the value at the path is `true`.
    pub fn is_true(&self, path: &str) -> bool {
        self.get(path).and_then(Json::as_bool) == Some(true)
    }
}
