//! The minimal operator's policy with which a module gets what it declares.

use hook_host::policy::{UnknownPath, dangerous_values, may_have_attributes, names_dangerous};
use hook_host::{ConditionedPath, Description};
use serde::Serialize;
use serde_json::Value;

use crate::yaml_writer::scalar;

/// The content of `allow` in an operator's policy.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MinimalPolicy {
    paths: Vec<ConditionedPath>,
    dangerous: Vec<ConditionedPath>,
    dirs: Vec<String>,
    config: Vec<String>,
    hook_points: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    migration: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pod: Vec<String>,
}

impl MinimalPolicy {
    pub(crate) fn for_module(description: &Description) -> Self {
        let wishes = description.wishes.clone().unwrap_or_default();
        // Every value of these paths is dangerous. A path with only some dangerous values is in `paths`, which grants
        // its other values.
        let is_always_dangerous = |path: &ConditionedPath| {
            names_dangerous(&path.pattern) && dangerous_values(&path.pattern).is_empty()
        };
        let (dangerous, paths): (Vec<_>, Vec<_>) = with_attributes(&wishes.paths)
            .into_iter()
            .partition(is_always_dangerous);
        let points = description.hook_points.iter();
        Self {
            paths,
            dangerous,
            dirs: wishes
                .dirs
                .iter()
                .map(|dir| dir.display().to_string())
                .collect(),
            config: wishes.config,
            hook_points: points
                .map(|subscription| subscription.point.name().to_owned())
                .collect(),
            migration: wishes.migration.iter().map(ToString::to_string).collect(),
            pod: wishes.pod.iter().map(ToString::to_string).collect(),
        }
    }

    /// The dangerous paths and the directories, which a module gets only if the operator's policy names them.
    pub(crate) fn dangerous_and_dirs(&self) -> Vec<String> {
        let dangerous = self.dangerous.iter().map(ToString::to_string);
        dangerous.chain(self.dirs.iter().cloned()).collect()
    }

    /// As [`Self::dangerous_and_dirs`], with the facts about the pod, which also need a policy.
    pub(crate) fn only_by_operator(&self) -> Vec<String> {
        let texts = self.dangerous_and_dirs().into_iter();
        texts.chain(self.pod.iter().cloned()).collect()
    }

    /// The policy as a YAML file. An absent `paths`, `config` or `hookPoints` does not narrow anything, so an empty list is
    /// written. `dangerous` and `dirs` are written empty for the reader. `pod` and `migration` are left out if empty: a
    /// module that declares none gets none.
    pub(crate) fn yaml(&self) -> String {
        let mut text = "allow:\n".to_owned();
        for (name, list) in [("paths", &self.paths), ("dangerous", &self.dangerous)] {
            if list.is_empty() {
                text += &format!("  {name}: []\n");
                continue;
            }
            text += &format!("  {name}:\n");
            for path in list {
                if name == "paths" {
                    text += &note_on_values(path);
                }
                if let Some(unknown) = UnknownPath::of(path.path()) {
                    text += &format!("    # {unknown}\n");
                }
                text += &list_item(path);
            }
        }
        let lists = [
            ("dirs", &self.dirs),
            ("config", &self.config),
            ("hookPoints", &self.hook_points),
        ];
        for (name, list) in lists {
            if list.is_empty() {
                text += &format!("  {name}: []\n");
                continue;
            }
            text += &format!("  {name}:\n");
            for item in list {
                text += &format!("    - {}\n", scalar(item));
            }
        }
        if !self.pod.is_empty() {
            text += "  pod:\n";
            text.extend(
                self.pod
                    .iter()
                    .map(|item| format!("    - {}\n", scalar(item))),
            );
        }
        if !self.migration.is_empty() {
            text += &format!("  migration: [{}]\n", self.migration.join(", "));
        }
        text
    }
}

/// The wishes, and after each for an element that of its own attributes, which a policy has to name. Elements that have
/// none in libvirt are left alone.
fn with_attributes(wishes: &[ConditionedPath]) -> Vec<ConditionedPath> {
    let wishes = wishes.iter().flat_map(|wish| {
        let attributes = wish.own_attributes();
        let attributes = attributes.filter(|_| may_have_attributes(wish.path()));
        [wish.clone()].into_iter().chain(attributes)
    });
    let mut all: Vec<ConditionedPath> = Vec::new();
    for wish in wishes {
        if !all.contains(&wish) {
            all.push(wish);
        }
    }
    all
}

/// A path as an item of a list: alone, or a mapping with its condition.
fn list_item(path: &ConditionedPath) -> String {
    let Ok(Value::Object(fields)) = serde_json::to_value(path) else {
        return format!("    - {}\n", scalar(path.path()));
    };
    let mut text = String::new();
    for (key, value) in &fields {
        let mark = if text.is_empty() { "    - " } else { "      " };
        let value = match value {
            Value::String(text) => scalar(text),
            // Lists and numbers are YAML as in JSON.
            other => other.to_string(),
        };
        text += &format!("{mark}{key}: {value}\n");
    }
    text
}

/// A YAML comment above a path of which some values are dangerous.
fn note_on_values(path: &ConditionedPath) -> String {
    let kinds = dangerous_values(&path.pattern);
    let notes = kinds.iter().map(|kind| {
        format!(
            "    # `dangerous` too, if it sets a value that {kind} ({})\n",
            kind.name()
        )
    });
    notes.collect()
}
