//! A file that cloud-init writes in the guest: an item of its `write_files`.

use serde_json::{Map, Value};

use super::CloudInitError;

/// A file for [`CloudConfig::add_file`](crate::CloudConfig::add_file): an item of cloud-init's `write_files`.
///
/// ```
/// use hooks_sdk::{CloudConfig, ConfigFile};
///
/// let mut config = CloudConfig::parse("#cloud-config\n")?;
/// let file = ConfigFile::new("/etc/placement", "rack=7\n").with_permissions("0640").with_owner("root:adm");
/// config.add_file(&file)?;
/// assert_eq!(
///     config.render(),
///     r#"#cloud-config
/// write_files:
///   - path: "/etc/placement"
///     permissions: "0640"
///     owner: "root:adm"
///     content: "rack=7\n"
/// "#
/// );
/// # Ok::<(), hooks_sdk::CloudInitError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigFile {
    path: String,
    content: String,
    permissions: Option<String>,
    owner: Option<String>,
    encoding: Option<String>,
    is_deferred: bool,
}

impl ConfigFile {
    /// A file at an absolute path with this content, with cloud-init's defaults: `0644`, of root, as plain text.
    pub fn new(path: impl Into<String>, content: impl Into<String>) -> ConfigFile {
        ConfigFile {
            path: path.into(),
            content: content.into(),
            permissions: None,
            owner: None,
            encoding: None,
            is_deferred: false,
        }
    }

    /// The permissions in three or four octal digits, as in `0600` or `600`.
    #[must_use]
    pub fn with_permissions(mut self, permissions: impl Into<String>) -> ConfigFile {
        self.permissions = Some(permissions.into());
        self
    }

    /// The owner as `USER` or `USER:GROUP`, both by name: cloud-init does not read numeric ids. For a user that cloud-init
    /// creates, [`ConfigFile::deferred`] is needed, too.
    #[must_use]
    pub fn with_owner(mut self, owner: impl Into<String>) -> ConfigFile {
        self.owner = Some(owner.into());
        self
    }

    /// How the content is encoded: `b64`, `gz`, `gz+b64`, or another encoding of cloud-init's.
    #[must_use]
    pub fn with_encoding(mut self, encoding: impl Into<String>) -> ConfigFile {
        self.encoding = Some(encoding.into());
        self
    }

    /// Lets cloud-init write the file late, after users are created and packages are installed.
    #[must_use]
    pub fn deferred(mut self) -> ConfigFile {
        self.is_deferred = true;
        self
    }

    /// Refuses what cloud-init would stumble over in the guest, where nobody sees it. cloud-init looks up users and groups
    /// by their names alone, so that for numeric ids it writes the file and then fails.
    pub(super) fn check(&self) -> Result<(), CloudInitError> {
        let is_octal = |text: &String| {
            (3..=4).contains(&text.len()) && text.bytes().all(|digit| matches!(digit, b'0'..=b'7'))
        };
        let is_name = |name: &str| {
            !name.is_empty() && !name.contains(|c: char| c == ':' || c.is_whitespace())
        };
        let is_owner = |text: &String| match text.split_once(':') {
            Some((user, group)) => is_name(user) && is_name(group),
            None => is_name(text),
        };
        let is_id = |name: &str| name.bytes().all(|digit| digit.is_ascii_digit());
        let has_id = |text: &String| text.split(':').any(is_id);
        let reason = if !self.path.starts_with('/') {
            "its path is not absolute"
        } else if self.path.contains('\0') {
            "its path contains a NUL character"
        } else if !self.permissions.iter().all(is_octal) {
            "its permissions are not three or four octal digits, as in 0600"
        } else if !self.owner.iter().all(is_owner) {
            "its owner is not USER or USER:GROUP"
        } else if self.owner.iter().any(has_id) {
            "its owner has a numeric id, which cloud-init does not read: names are needed"
        } else {
            return Ok(());
        };
        Err(CloudInitError::InvalidFile {
            path: self.path.clone(),
            reason,
        })
    }

    /// The item of `write_files`.
    pub(super) fn to_json(&self) -> Value {
        let texts = [
            ("path", Some(&self.path)),
            ("permissions", self.permissions.as_ref()),
            ("owner", self.owner.as_ref()),
            ("encoding", self.encoding.as_ref()),
            ("content", Some(&self.content)),
        ];
        let mut item = Map::new();
        for (member, text) in texts {
            if let Some(text) = text {
                item.insert(member.to_owned(), Value::from(text.as_str()));
            }
        }
        if self.is_deferred {
            item.insert("defer".to_owned(), Value::Bool(true));
        }
        Value::Object(item)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CloudConfig;

    #[test]
    fn files_with_relative_paths_or_malformed_permissions_or_owners_are_refused() {
        let file = || ConfigFile::new("/etc/x", "");
        for (file, reason) in [
            (ConfigFile::new("etc/x", ""), "its path is not absolute"),
            (ConfigFile::new("", ""), "its path is not absolute"),
            (
                ConfigFile::new("/etc/\0x", ""),
                "its path contains a NUL character",
            ),
            (
                file().with_permissions("rw-r--r--"),
                "three or four octal digits",
            ),
            (
                file().with_permissions("0o644"),
                "three or four octal digits",
            ),
            (
                file().with_permissions("0888"),
                "three or four octal digits",
            ),
            (file().with_owner(""), "its owner is not USER or USER:GROUP"),
            (
                file().with_owner("root:"),
                "its owner is not USER or USER:GROUP",
            ),
            (
                file().with_owner("a:b:c"),
                "its owner is not USER or USER:GROUP",
            ),
            (
                file().with_owner("a b:c"),
                "its owner is not USER or USER:GROUP",
            ),
            (file().with_owner("1000"), "its owner has a numeric id"),
            (file().with_owner("root:1000"), "its owner has a numeric id"),
        ] {
            let mut config = CloudConfig::parse("#cloud-config\n").unwrap();
            let error = config.add_file(&file).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
            assert_eq!(config.render(), "#cloud-config\n");
        }
        let mut config = CloudConfig::parse("#cloud-config\n").unwrap();
        for owner in ["root", "root:adm", "user1:1st"] {
            let file = file().with_permissions("644").with_owner(owner);
            config.add_file(&file).unwrap();
        }
    }
}
