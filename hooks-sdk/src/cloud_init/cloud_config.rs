//! Additions to `#cloud-config` user data.

use std::ops::{Deref, DerefMut};

use serde_json::{Map, Value};

use super::{CloudInitError, ConfigFile, Yaml};

/// A `#cloud-config` document: YAML that begins with that line. It dereferences to its [`Yaml`], for all keys without a
/// method here.
///
/// ```
/// use hooks_sdk::{CloudConfig, ConfigFile, json};
///
/// let mut config = CloudConfig::parse("#cloud-config\npackages: [vim]\n")?;
/// config.add_package("qemu-guest-agent")?;
/// config.add_run_command(["systemctl", "enable", "--now", "qemu-guest-agent"])?;
/// config.add_file(&ConfigFile::new("/etc/motd", "a guest\n"))?;
/// config.set("ssh_pwauth", &json!(false))?;
/// assert_eq!(
///     config.render(),
///     r#"#cloud-config
/// packages: [vim, "qemu-guest-agent"]
/// runcmd:
///   - ["systemctl","enable","--now","qemu-guest-agent"]
/// write_files:
///   - path: "/etc/motd"
///     content: "a guest\n"
/// ssh_pwauth: false
/// "#
/// );
/// # Ok::<(), hooks_sdk::CloudInitError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CloudConfig {
    yaml: Yaml,
}

impl CloudConfig {
    /// Parses `#cloud-config` user data. Empty user data is an empty document.
    ///
    /// # Errors
    /// If the user data begins with another line.
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
    ///
    /// # Errors
    /// If `runcmd` is not a list that an item can be added to.
    pub fn add_run_command(
        &mut self,
        command: impl IntoIterator<Item = impl AsRef<str>>,
    ) -> Result<(), CloudInitError> {
        let words = command.into_iter();
        let command: Value = words.map(|word| Value::from(word.as_ref())).collect();
        self.yaml.add_json("runcmd", &command)
    }

    /// Adds a file to `write_files`.
    ///
    /// # Errors
    /// If the path is not absolute or contains a NUL character, the permissions are not three or four octal digits, the
    /// owner is not the names `USER` or `USER:GROUP`, or `write_files` is not a list that an item can be added to.
    pub fn add_file(&mut self, file: &ConfigFile) -> Result<(), CloudInitError> {
        file.check()?;
        self.yaml.add_json("write_files", &file.to_json())
    }

    /// Adds a package to `packages`, which the guest installs at its first boot.
    ///
    /// # Errors
    /// If `packages` is not a list that an item can be added to.
    pub fn add_package(&mut self, name: &str) -> Result<(), CloudInitError> {
        self.yaml.add_json("packages", &Value::from(name))
    }

    /// Adds a user with these members of cloud-init's `users` (`groups`, `sudo`,
    /// `ssh_authorized_keys`, ...). The image's own user is kept: a list created here begins with
    /// `default`.
    ///
    /// # Errors
    /// If the members are not an object, or contain `name`; if `users` is not a list that an item can be added to.
    pub fn add_user(&mut self, name: &str, members: &crate::Value) -> Result<(), CloudInitError> {
        let invalid = |reason| CloudInitError::InvalidUser {
            name: name.to_owned(),
            reason,
        };
        let members = members.as_serde_json().as_object();
        let members = members.ok_or_else(|| invalid("its members are not an object"))?;
        if members.contains_key("name") {
            return Err(invalid("its members contain a name, which is given apart"));
        }
        let mut user = Map::new();
        user.insert("name".to_owned(), Value::from(name));
        user.extend(members.clone());
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
        let file = ConfigFile::new("/etc/x", "a \"b\"\n").with_permissions("0644");
        config.add_file(&file).unwrap();
        assert_eq!(
            config.render(),
            "#cloud-config\nwrite_files:\n  - path: \"/etc/x\"\n    permissions: \"0644\"\n    content: \"a \\\"b\\\"\\n\"\n"
        );
    }

    #[test]
    fn all_members_of_a_file_are_written() {
        let mut config = CloudConfig::parse("#cloud-config\n").unwrap();
        let file = ConfigFile::new("/x", "YQ==")
            .with_encoding("b64")
            .with_owner("ops:ops")
            .with_permissions("0600")
            .deferred();
        for _ in 0..2 {
            config.add_file(&file).unwrap();
        }
        assert_eq!(
            config.render(),
            "#cloud-config\nwrite_files:\n  - path: \"/x\"\n    permissions: \"0600\"\n    owner: \"ops:ops\"\n    encoding: \"b64\"\n    content: \"YQ==\"\n    defer: true\n"
        );
    }

    #[test]
    fn members_of_a_user_that_are_no_object_or_have_a_name_are_errors() {
        let mut config = CloudConfig::parse("#cloud-config\n").unwrap();
        for (members, reason) in [
            (
                crate::json!(["wheel"]),
                "the user ops: its members are not an object",
            ),
            (
                crate::json!({"name": "root"}),
                "the user ops: its members contain a name",
            ),
        ] {
            let error = config.add_user("ops", &members).unwrap_err().to_string();
            assert!(error.starts_with(reason), "{error}");
        }
        assert_eq!(config.render(), "#cloud-config\n");
    }
}
