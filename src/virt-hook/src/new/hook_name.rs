//! A hook's name and the forms of it that templates use.

use std::path::Path;

use anyhow::{Result, bail};

/// The longest name: it may become part of a Kubernetes label.
const LONGEST: usize = 53;

/// A valid name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Names(String);

impl Names {
    /// The last part of a path.
    pub(super) fn of(project: &Path) -> Result<Self> {
        let name = project.file_name().unwrap_or_default().to_string_lossy();
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let starts = name.starts_with(|c: char| c.is_ascii_lowercase());
        if !starts || !name.chars().all(plain) || name.ends_with('-') || name.len() > LONGEST {
            bail!(
                "{name:?} is no name for a hook: it has a-z, 0-9 and -, begins with a letter, does \
                 not end with - and has at most {LONGEST} characters"
            );
        }
        // Cargo would refuse these later, with a less clear message.
        if ["test", "core", "std", "alloc", "hooks-sdk"].contains(&name.as_ref()) {
            bail!("{name:?} is taken by something that Rust projects use: choose another name");
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
            ("type", self.0.split('-').map(capital).collect()),
            ("sdk", dependency.to_owned()),
        ]
    }
}

fn capital(word: &str) -> String {
    let mut letters = word.chars();
    let first = letters.next().map(|c| c.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_name_has_three_forms() {
        let values = Names::of(Path::new("a/team-label2")).unwrap().values("x");
        let texts: Vec<&str> = values.iter().map(|(_, text)| text.as_str()).collect();
        assert_eq!(texts, ["team-label2", "team_label2", "TeamLabel2", "x"]);
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
            "ä",
            "a b",
            &"x".repeat(54),
        ] {
            assert!(Names::of(Path::new(name)).is_err(), "{name}");
        }
    }
}
