//! The narrowest operator's policy with which a module gets what it declares.

use hook_host::Description;
use hook_host::policy::names_dangerous;
use serde::Serialize;

/// The content of `allow`.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NarrowestPolicy {
    paths: Vec<String>,
    dangerous: Vec<String>,
    dirs: Vec<String>,
    config: Vec<String>,
    hook_points: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    migration: Vec<String>,
}

impl NarrowestPolicy {
    pub(crate) fn of(description: &Description) -> Self {
        let wishes = description.wishes.clone().unwrap_or_default();
        let (dangerous, paths): (Vec<_>, Vec<_>) =
            wishes.paths.iter().partition(|path| names_dangerous(path));
        let texts = |paths: Vec<&domain_xml::PathPattern>| {
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
            hook_points: points.map(|one| one.point.name().to_owned()).collect(),
            migration: wishes.migration.iter().map(ToString::to_string).collect(),
        }
    }

    /// The policy as a file. Lists of what is not declared are there and empty: a list that is left out allows more.
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
            text.extend(list.iter().map(|item| format!("    - {}\n", scalar(item))));
        }
        // A module that declares none gets none.
        if !self.migration.is_empty() {
            text += &format!("  migration: [{}]\n", self.migration.join(", "));
        }
        text
    }
}

/// A text in YAML: plain where that is certainly the same, else in quotes, as JSON has them.
fn scalar(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/_@='[]*:.-".contains(&byte);
    let starts_well =
        text.starts_with('/') || text.starts_with(|first: char| first.is_ascii_alphabetic());
    if starts_well && text.bytes().all(is_plain) && !text.ends_with(':') {
        return text.to_owned();
    }
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_yaml_reads_otherwise_are_quoted() {
        assert_eq!(
            scalar("/domain/os/boot[@dev='hd']/**"),
            "/domain/os/boot[@dev='hd']/**"
        );
        for text in ["/a b: c", "", "a:", "7", "/a#b"] {
            let yaml = format!("[{}]", scalar(text));
            let read: Vec<String> = serde_saphyr::from_str(&yaml).unwrap_or_default();
            assert_eq!(read, [text]);
        }
    }
}
