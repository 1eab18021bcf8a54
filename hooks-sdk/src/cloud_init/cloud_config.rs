//! Additions to `#cloud-config` user data.

use std::ops::{Deref, DerefMut};

use serde_json::{Map, Value, json};

use super::{CloudInitError, Yaml};

/// A `#cloud-config` document: YAML that begins with that line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CloudConfig {
    yaml: Yaml,
}

impl CloudConfig {
    /// Parses `#cloud-config` user data. Empty user data is an empty document.
    pub fn parse(user_data: &str) -> Result<CloudConfig, CloudInitError> {
        match user_data.lines().next() {
            None => Ok(CloudConfig {
                yaml: Yaml::new("#cloud-config\n"),
            }),
            Some(first) if first.trim_end() == "#cloud-config" => Ok(CloudConfig {
                yaml: Yaml::new(user_data),
            }),
            Some(first) => Err(CloudInitError::NotCloudConfig {
                begins: first.chars().take(40).collect(),
            }),
        }
    }

    /// Adds a command to `runcmd`: a program and its arguments, run without a shell.
    pub fn add_run_command<'a>(
        &mut self,
        command: impl IntoIterator<Item = &'a str>,
    ) -> Result<(), CloudInitError> {
        self.yaml.add_json("runcmd", &Value::from_iter(command))
    }

    /// Adds a file to `write_files`; `permissions` as in `0644`.
    pub fn add_file(
        &mut self,
        path: &str,
        permissions: &str,
        content: &str,
    ) -> Result<(), CloudInitError> {
        self.yaml.add_json(
            "write_files",
            &json!({"path": path, "permissions": permissions, "content": content}),
        )
    }

    /// Adds a package to `packages`, which the guest installs at its first boot.
    pub fn add_package(&mut self, name: &str) -> Result<(), CloudInitError> {
        self.yaml.add_json("packages", &Value::from(name))
    }

    /// Adds a user with these members of cloud-init's `users` (`groups`, `sudo`,
    /// `ssh_authorized_keys`, ...). The image's own user is kept: a list created here begins with
    /// `default`.
    pub fn add_user(&mut self, name: &str, members: &crate::Value) -> Result<(), CloudInitError> {
        let mut user = Map::new();
        user.insert("name".to_owned(), Value::from(name));
        for (member, value) in members.as_serde_json().as_object().into_iter().flatten() {
            user.insert(member.clone(), value.clone());
        }
        if !self.contains("users")? {
            self.yaml.add_plain("users", "default")?;
        }
        self.yaml.add_json("users", &Value::Object(user))
    }
}

impl Deref for CloudConfig {
    type Target = Yaml;

    fn deref(&self) -> &Yaml {
        &self.yaml
    }
}

impl DerefMut for CloudConfig {
    fn deref_mut(&mut self) -> &mut Yaml {
        &mut self.yaml
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn user_data_formats_are_detected_by_their_first_line() {
        let error = CloudConfig::parse("#!/bin/sh\n").unwrap_err().to_string();
        assert_eq!(
            error,
            "the user data is no #cloud-config document: it begins with \"#!/bin/sh\""
        );
        let empty = CloudConfig::parse("").unwrap();
        assert_eq!(empty.render(), "#cloud-config\n");
    }

    #[test]
    fn a_user_joins_the_images_own() {
        let mut config = CloudConfig::parse("#cloud-config\n").unwrap();
        for _ in 0..2 {
            config
                .add_user("ops", &crate::json!({"groups": ["wheel"]}))
                .unwrap();
        }
        assert_eq!(
            config.render(),
            "#cloud-config\nusers:\n  - default\n  - name: \"ops\"\n    groups: [\"wheel\"]\n"
        );
        let mut config = CloudConfig::parse("#cloud-config\nusers: []\n").unwrap();
        config.add_user("ops", &crate::json!({})).unwrap();
        assert_eq!(
            config.render(),
            "#cloud-config\nusers: [{\"name\":\"ops\"}]\n"
        );
    }

    #[test]
    fn a_file_is_written_as_a_mapping() {
        let mut config = CloudConfig::parse("#cloud-config\n").unwrap();
        config.add_file("/etc/x", "0644", "a \"b\"\n").unwrap();
        assert_eq!(
            config.render(),
            "#cloud-config\nwrite_files:\n  - path: \"/etc/x\"\n    permissions: \"0644\"\n    content: \"a \\\"b\\\"\\n\"\n"
        );
    }
}
