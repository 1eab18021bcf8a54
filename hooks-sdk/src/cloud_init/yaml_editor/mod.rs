//! Edits YAML in its text form: parsing and rendering would lose comments, quoting and order.
//! An edit that is not safe in the text form is refused.

mod block_mapping;
mod inline_value;
mod key_lookup_and_insertion;
mod list_item_insertion;
#[cfg(test)]
mod tests;
mod value_rendering;

use serde_json::Value;

use super::CloudInitError;
use crate::dotted_path::{self, Step};
use block_mapping::{ValueKind, end_of_value, value_below};

/// A YAML document whose top level is a mapping. Comments and everything that is not edited are kept, except line ends:
/// see [`Yaml::render`].
///
/// Paths are names joined by dots, `['a.b/c']` for a name with dots or slashes.
///
/// ```
/// # use hooks_sdk::{Yaml, json};
/// let mut yaml = Yaml::new("# mine\nversion: 2\nethernets:\n  eth0: {dhcp4: true}\n");
/// yaml.set("ethernets.eth1.mtu", &json!(9000))?;
/// assert_eq!(yaml.render(), "# mine\nversion: 2\nethernets:\n  eth0: {dhcp4: true}\n  eth1:\n    mtu: 9000\n");
/// assert_eq!(yaml.text("version")?.as_deref(), Some("2"));
/// assert_eq!(yaml.keys("ethernets")?, ["eth0", "eth1"]);
/// # Ok::<(), hooks_sdk::CloudInitError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Yaml {
    /// The text as it was read.
    original: String,
    lines: Vec<String>,
    line_end: &'static str,
}

/// Documents are equal if their texts are.
impl PartialEq for Yaml {
    fn eq(&self, other: &Yaml) -> bool {
        self.render() == other.render()
    }
}

impl Eq for Yaml {}

/// A key and where its value begins on its line.
struct KeyPosition {
    line: usize,
    value: usize,
}

impl Yaml {
    /// A document from its text.
    pub fn new(text: &str) -> Yaml {
        let first = text.split('\n').next().unwrap_or_default();
        let line_end = if first.ends_with('\r') { "\r\n" } else { "\n" };
        Yaml {
            original: text.to_owned(),
            lines: text.lines().map(str::to_owned).collect(),
            line_end,
        }
    }

    /// The document as text: the original if nothing was edited. After an edit, every line, the last one too, has the
    /// line end of the first one.
    pub fn render(&self) -> String {
        if self.original.lines().eq(&self.lines) {
            return self.original.clone();
        }
        let mut text = String::new();
        for line in &self.lines {
            text.push_str(line);
            text.push_str(self.line_end);
        }
        text
    }

    /// Whether the key exists.
    ///
    /// # Errors
    /// If the path is invalid, or leads through something that has no keys.
    pub fn contains(&self, path: &str) -> Result<bool, CloudInitError> {
        Ok(self.find_path(path)?.is_some())
    }

    /// The text or number of the key; `None` if it is missing or has another kind of value.
    ///
    /// # Errors
    /// If the path is invalid, or leads through something that has no keys.
    pub fn text(&self, path: &str) -> Result<Option<String>, CloudInitError> {
        let found = self.find_path(path)?;
        Ok(found.and_then(|(found, _)| inline_value::text(&self.lines[found.line][found.value..])))
    }

    /// The keys of the mapping at the path, or of the document if the path is empty.
    ///
    /// # Errors
    /// If the path is invalid, or leads through something that has no keys.
    pub fn keys(&self, path: &str) -> Result<Vec<String>, CloudInitError> {
        let scope = match self.find_path(path) {
            _ if path.is_empty() => Some(self.top()),
            Ok(Some((found, scope))) => match value_below(&self.lines, found.line, scope.indent) {
                ValueKind::Mapping(scope) => Some(scope),
                _ => None,
            },
            Ok(None) => None,
            Err(error) => return Err(error),
        };
        let entries = scope.into_iter().flat_map(|scope| self.entries(scope));
        Ok(entries.map(|(_, key, _)| key.to_owned()).collect())
    }

    /// Sets the key to this value. Adds the key and its parents if they are missing. The same value again changes
    /// nothing, not even the quotes.
    ///
    /// # Errors
    /// If the path is invalid or leads through something that has no keys, or the value cannot be replaced safely, such
    /// as one with an anchor.
    pub fn set(&mut self, path: &str, value: &crate::Value) -> Result<(), CloudInitError> {
        self.set_json(path, value.as_serde_json())
    }

    fn set_json(&mut self, path: &str, value: &Value) -> Result<(), CloudInitError> {
        let mut names = names(path)?;
        let Some(name) = names.pop() else {
            return Err(bad_path(path));
        };
        let scope = self.ensure(&names)?;
        let Some(found) = self.find(scope, name)? else {
            self.may_end(scope, name)?;
            let added = value_rendering::entry(name, value, scope.indent);
            self.lines.splice(scope.end..scope.end, added);
            return Ok(());
        };
        self.is_free(&found, name)?;
        let (key, written) = self.lines[found.line].split_at(found.value);
        let end = end_of_value(&self.lines, found.line, scope.indent);
        if end == found.line + 1 && inline_value::is(written, value) {
            return Ok(());
        }
        let comment = inline_value::end(written).map_or("", |end| &written[end..]);
        let mut entry = value_rendering::entry(name, value, scope.indent);
        if entry.len() == 1 {
            // The key stays as it was written, and the comment behind it.
            let space = if key.ends_with(' ') { "" } else { " " };
            entry = vec![format!("{key}{space}{value}{comment}")];
        }
        self.lines.splice(found.line..end, entry);
        Ok(())
    }

    /// Removes the key and its value. Returns whether it existed.
    ///
    /// # Errors
    /// If the path is invalid, or the value has an anchor, an alias or a tag.
    pub fn remove(&mut self, path: &str) -> Result<bool, CloudInitError> {
        let Some((found, scope)) = self.find_path(path)? else {
            return Ok(false);
        };
        self.is_free(&found, path)?;
        let end = end_of_value(&self.lines, found.line, scope.indent);
        self.lines.drain(found.line..end);
        Ok(true)
    }
}

fn names(path: &str) -> Result<Vec<&str>, CloudInitError> {
    // A path in the syntax of domain paths would silently be one name.
    if path.contains('/') && !path.contains(['\'', '"']) {
        return Err(bad_path(path));
    }
    let steps = dotted_path::steps(path).ok_or_else(|| bad_path(path))?;
    let names = steps.into_iter().map(|step| match step {
        Step::Member(name) => Ok(name),
        Step::Item(_) | Step::Where(..) => Err(bad_path(path)),
    });
    names.collect()
}

fn bad_path(path: &str) -> CloudInitError {
    CloudInitError::InvalidPath {
        path: path.to_owned(),
    }
}
