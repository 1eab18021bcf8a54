use std::fmt;

use serde_json::Value;

/// The virtual machine instance, as KubeVirt describes it. Nothing of it can be changed.
#[derive(Debug, Clone)]
pub struct Vmi {
    raw: String,
    json: Value,
}

/// A text that is no virtual machine instance.
#[derive(Debug)]
pub struct VmiError(String);

impl fmt::Display for VmiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the VMI cannot be read: {}", self.0)
    }
}

impl std::error::Error for VmiError {}

impl Vmi {
    /// Reads a VMI; fields that are not known stay readable by path.
    pub fn parse(json: impl Into<String>) -> Result<Vmi, VmiError> {
        let raw = json.into();
        let json: Value =
            serde_json::from_str(&raw).map_err(|error| VmiError(error.to_string()))?;
        if !json.is_object() {
            return Err(VmiError("it is no JSON object".to_owned()));
        }
        Ok(Vmi { raw, json })
    }

    /// The text as it came.
    pub fn raw_json(&self) -> &str {
        &self.raw
    }

    /// The whole VMI.
    pub fn json(&self) -> &Value {
        &self.json
    }

    /// The VMI's name; empty when there is none.
    pub fn name(&self) -> &str {
        self.text("metadata.name").unwrap_or_default()
    }

    /// The VMI's namespace; empty when there is none.
    pub fn namespace(&self) -> &str {
        self.text("metadata.namespace").unwrap_or_default()
    }

    /// The VMI's uid; empty when there is none.
    pub fn uid(&self) -> &str {
        self.text("metadata.uid").unwrap_or_default()
    }

    /// The value of an annotation.
    pub fn annotation(&self, name: &str) -> Option<&str> {
        self.get("metadata.annotations")?.get(name)?.as_str()
    }

    /// All annotations.
    pub fn annotations(&self) -> impl Iterator<Item = (&str, &str)> {
        self.texts("metadata.annotations")
    }

    /// The value of a label.
    pub fn label(&self, name: &str) -> Option<&str> {
        self.get("metadata.labels")?.get(name)?.as_str()
    }

    /// All labels.
    pub fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        self.texts("metadata.labels")
    }

    fn texts(&self, path: &str) -> impl Iterator<Item = (&str, &str)> {
        let object = self.get(path).and_then(Value::as_object);
        object
            .into_iter()
            .flatten()
            .filter_map(|(name, value)| Some((name.as_str(), value.as_str()?)))
    }

    /// The value at a path: names joined by dots, `[0]` for an item of a list, `['a.b/c']` for a
    /// name with dots, `[name=root]` for the item of a list with that member.
    ///
    /// ```
    /// # let vmi = hooks_sdk::Vmi::parse(r#"{"spec":{"volumes":[{"name":"root","emptyDisk":{"capacity":"1Gi"}}]}}"#)?;
    /// assert_eq!(vmi.get("spec.volumes[name=root].emptyDisk.capacity").unwrap(), "1Gi");
    /// assert_eq!(vmi.get("spec.volumes[1]"), None);
    /// # Ok::<(), hooks_sdk::VmiError>(())
    /// ```
    pub fn get(&self, path: &str) -> Option<&Value> {
        let mut value = &self.json;
        let mut rest = path;
        while !rest.is_empty() {
            rest = rest.strip_prefix('.').unwrap_or(rest);
            (value, rest) = match rest.strip_prefix('[') {
                Some(inside) => bracketed(value, inside)?,
                None => {
                    let end = rest.find(['.', '[']).unwrap_or(rest.len());
                    (value.get(&rest[..end])?, &rest[end..])
                }
            };
        }
        Some(value)
    }

    /// The text at a path; none when there is no text.
    pub fn text(&self, path: &str) -> Option<&str> {
        self.get(path)?.as_str()
    }

    /// The whole number at a path; none when there is no such number.
    pub fn number(&self, path: &str) -> Option<i64> {
        self.get(path)?.as_i64()
    }

    /// Whether the path holds `true`.
    pub fn is_true(&self, path: &str) -> bool {
        self.get(path) == Some(&Value::Bool(true))
    }
}

/// The value that `0]...`, `'name']...` or `key=value]...` selects, and the rest of the path.
fn bracketed<'v, 'p>(value: &'v Value, inside: &'p str) -> Option<(&'v Value, &'p str)> {
    if let Some(quote) = inside.chars().next().filter(|c| matches!(c, '\'' | '"')) {
        let (name, rest) = inside[1..].split_once(quote)?;
        return Some((value.get(name)?, rest.strip_prefix(']')?));
    }
    let (selector, rest) = inside.split_once(']')?;
    if let Some((key, wanted)) = selector.split_once('=') {
        let wanted = wanted.trim_matches(['\'', '"']);
        let found = value
            .as_array()?
            .iter()
            .find(|item| item.get(key).and_then(Value::as_str) == Some(wanted));
        return Some((found?, rest));
    }
    Some((value.get(selector.parse::<usize>().ok()?)?, rest))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const VMI: &str = r#"{"metadata":{"name":"vm","namespace":"ns","uid":"u","labels":{"app":"x"},
        "annotations":{"a.b/c":"d","n":"1"}},"spec":{"domain":{"cpu":{"cores":2}},"volumes":[{"name":"root"}],"on":true},"ours":null}"#;

    #[test]
    fn metadata_is_at_hand_and_the_rest_by_path() {
        let vmi = Vmi::parse(VMI).unwrap();
        assert_eq!((vmi.name(), vmi.namespace(), vmi.uid()), ("vm", "ns", "u"));
        assert_eq!(vmi.annotation("a.b/c"), Some("d"));
        assert_eq!(vmi.annotations().count(), 2);
        assert_eq!(vmi.labels().collect::<Vec<_>>(), [("app", "x")]);
        assert_eq!(vmi.label("none"), None);
        assert_eq!(vmi.number("spec.domain.cpu.cores"), Some(2));
        assert_eq!(vmi.text("metadata.annotations['a.b/c']"), Some("d"));
        assert_eq!(vmi.text("spec.volumes[0].name"), Some("root"));
        assert!(vmi.is_true("spec.on") && !vmi.is_true("spec"));
        assert_eq!(vmi.raw_json(), VMI);
    }

    #[test]
    fn a_path_that_leads_nowhere_is_none() {
        let vmi = Vmi::parse(VMI).unwrap();
        for path in [
            "x",
            "spec.volumes[1]",
            "spec.volumes[x]",
            "spec.volumes[",
            "spec.volumes['",
            "metadata.name.x",
            "..",
            "spec.volumes[name=y]",
        ] {
            assert_eq!(vmi.get(path), None, "{path}");
        }
    }

    #[test]
    fn what_is_no_vmi_says_why() {
        assert!(
            Vmi::parse("{")
                .unwrap_err()
                .to_string()
                .starts_with("the VMI cannot be read: EOF")
        );
        assert_eq!(
            Vmi::parse("[]").unwrap_err().to_string(),
            "the VMI cannot be read: it is no JSON object"
        );
        assert_eq!(Vmi::parse("{}").unwrap().name(), "");
    }
}
