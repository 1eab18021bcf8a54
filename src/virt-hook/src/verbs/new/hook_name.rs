//! A hook's name and the forms of it that templates use.

use std::path::Path;

use anyhow::{Result, bail};

/// Maximum length of a name, which may become part of a Kubernetes label.
const MAX_LENGTH: usize = 53;

/// Names that the hook's type must not have: those of the SDK, some of which the template imports, and those that are
/// in scope in every file.
const TAKEN_TYPES: [&str; 43] = [
    "AsMut",
    "AsRef",
    "Box",
    "Clone",
    "CloudConfig",
    "CloudInit",
    "CloudInitError",
    "Context",
    "Copy",
    "Debug",
    "Default",
    "Description",
    "Device",
    "Disk",
    "Domain",
    "Drop",
    "Element",
    "Eq",
    "Err",
    "Error",
    "Fn",
    "From",
    "Hook",
    "HookPoint",
    "HostDevice",
    "Interface",
    "Into",
    "Iterator",
    "Json",
    "Migration",
    "Network",
    "None",
    "Ok",
    "Option",
    "Ord",
    "Result",
    "Some",
    "String",
    "Value",
    "Vec",
    "Vmi",
    "Volume",
    "Yaml",
];

/// Keywords of Rust that are valid as names otherwise.
const RUST_KEYWORDS: [&str; 50] = [
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "crate",
    "do", "dyn", "else", "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl",
    "in", "let", "loop", "macro", "match", "mod", "move", "mut", "override", "priv", "pub", "ref",
    "return", "self", "static", "struct", "super", "trait", "true", "try", "type", "typeof",
    "unsafe", "use", "virtual", "where", "while", "yield",
];

/// The valid name of a hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HookName(String);

impl HookName {
    /// The last part of a project's path, if it is a valid name.
    pub(super) fn of_project(project: &Path) -> Result<Self> {
        let name = project.file_name().unwrap_or_default().to_string_lossy();
        let is_allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let begins_with_letter = name.starts_with(|c: char| c.is_ascii_lowercase());
        if !begins_with_letter
            || !name.chars().all(is_allowed)
            || name.ends_with('-')
            || name.len() > MAX_LENGTH
        {
            bail!(
                "{name:?} is not a name for a hook: it has a-z, 0-9 and -, begins with a letter, does \
                 not end with - and has at most {MAX_LENGTH} characters"
            );
        }
        // Cargo would refuse these later, with a less clear message.
        if ["test", "core", "std", "alloc", "hooks-sdk"].contains(&name.as_ref()) {
            bail!("{name:?} is the name of something that Rust projects use: choose another name");
        }
        if RUST_KEYWORDS.contains(&name.as_ref()) {
            bail!(
                "{name:?} is a keyword of Rust, and not possible as the name of a crate: choose another name, such as {name}-hook"
            );
        }
        Ok(Self(name.into_owned()))
    }

    pub(super) fn name(&self) -> &str {
        &self.0
    }

    /// The values of `{{key}}` in templates.
    pub(super) fn values(&self, dependency: &str) -> Vec<(&'static str, String)> {
        vec![
            ("name", self.0.clone()),
            ("crate", self.0.replace('-', "_")),
            ("type", self.type_name()),
            ("sdk", dependency.to_owned()),
        ]
    }

    /// The name of the hook's type; `vmi` becomes `VmiHook`, since the SDK has a type `Vmi`.
    fn type_name(&self) -> String {
        let name: String = self.0.split('-').map(capitalized).collect();
        match TAKEN_TYPES.contains(&name.as_str()) {
            true => format!("{name}Hook"),
            false => name,
        }
    }
}

fn capitalized(word: &str) -> String {
    let mut letters = word.chars();
    let first = letters.next().map(|c| c.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_three_forms() {
        let values = HookName::of_project(Path::new("a/team-label2"))
            .unwrap()
            .values("x");
        let texts: Vec<&str> = values.iter().map(|(_, text)| text.as_str()).collect();
        assert_eq!(texts, ["team-label2", "team_label2", "TeamLabel2", "x"]);
    }

    /// The name of a hook whose type would have this name: `hook-point` for `HookPoint`.
    fn hook_name_for_type(type_name: &str) -> String {
        let mut name = String::new();
        for letter in type_name.chars() {
            if letter.is_ascii_uppercase() && !name.is_empty() {
                name.push('-');
            }
            name.push(letter.to_ascii_lowercase());
        }
        name
    }

    #[test]
    fn hook_type_does_not_collide_with_types_of_the_template() {
        let template = include_str!("../../../templates/rust/src/lib.rs");
        let (_, imports) = template.split_once("use hooks_sdk::{").unwrap();
        let (imports, _) = imports.split_once("};").unwrap();
        let imports = imports.split(',').map(str::trim);
        let types = imports.filter(|name| name.starts_with(|c: char| c.is_ascii_uppercase()));
        let types: Vec<&str> = types.collect();
        assert!(types.contains(&"HookPoint"), "{types:?}");
        for type_name in types.into_iter().chain(["Ok", "Err", "String", "Value"]) {
            let names = HookName::of_project(Path::new(&hook_name_for_type(type_name))).unwrap();
            assert_eq!(names.type_name(), format!("{type_name}Hook"));
        }
    }

    #[test]
    fn invalid_names_are_refused() {
        for name in [
            "",
            "..",
            "Team",
            "2x",
            "a_b",
            "a-",
            "test",
            "self",
            "fn",
            "ä",
            "a b",
            &"x".repeat(54),
        ] {
            assert!(HookName::of_project(Path::new(name)).is_err(), "{name}");
        }
    }
}
