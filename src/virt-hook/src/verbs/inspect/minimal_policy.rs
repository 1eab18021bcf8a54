//! The minimal operator's policy with which a module gets what it declares.

use domain_xml::PathPattern;
use hook_host::Description;
use hook_host::policy::{UnknownPath, dangerous_values, names_dangerous};
use serde::Serialize;

use crate::yaml_writer::scalar;

/// The content of `allow` in an operator's policy.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MinimalPolicy {
    paths: Vec<String>,
    dangerous: Vec<String>,
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
        let is_always_dangerous =
            |path: &&PathPattern| names_dangerous(path) && dangerous_values(path).is_empty();
        let (dangerous, paths): (Vec<_>, Vec<_>) =
            wishes.paths.iter().partition(is_always_dangerous);
        let texts = |paths: Vec<&PathPattern>| {
            let texts = paths.into_iter().map(|path| path.as_str().to_owned());
            texts.collect()
        };
        let points = description.hook_points.iter();
        Self {
            paths: texts(paths),
            dangerous: texts(dangerous),
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
    pub(crate) fn dangerous_and_dirs(&self) -> Vec<&str> {
        let texts = self.dangerous.iter().chain(&self.dirs);
        texts.map(String::as_str).collect()
    }

    /// As [`Self::dangerous_and_dirs`], with the facts about the pod, which also need a policy.
    pub(crate) fn only_by_operator(&self) -> Vec<&str> {
        let texts = self.dangerous_and_dirs().into_iter();
        texts.chain(self.pod.iter().map(String::as_str)).collect()
    }

    /// The policy as a YAML file. An absent `paths`, `config` or `hookPoints` does not narrow anything, so an empty list is
    /// written. `dangerous` and `dirs` are written empty for the reader. `pod` and `migration` are left out if empty: a
    /// module that declares none gets none.
    pub(crate) fn yaml(&self) -> String {
        let mut text = "allow:\n".to_owned();
        let lists = [
            ("paths", &self.paths),
            ("dangerous", &self.dangerous),
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
                if name == "paths" {
                    text += &note_on_values(item);
                }
                if let ("paths" | "dangerous", Some(unknown)) = (name, UnknownPath::of(item)) {
                    text += &format!("    # {unknown}\n");
                }
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

/// A YAML comment above a path of which some values are dangerous.
fn note_on_values(path: &str) -> String {
    let kinds =
        PathPattern::parse(path).map_or_else(|_| Vec::new(), |path| dangerous_values(&path));
    let notes = kinds.iter().map(|kind| {
        format!(
            "    # `dangerous` too, if it sets a value that {kind} ({})\n",
            kind.name()
        )
    });
    notes.collect()
}
