//! Access credentials that are set through the guest agent: SSH keys and passwords per user, read from secrets. The
//! rules are those of KubeVirt v1.9's pkg/virt-launcher/virtwrap/access-credentials.
//!
//! [`crate::cloud_init`] has the credentials that are set through cloud-init.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use kubevirt_api::vmi::Vmi;
use serde_json::Value;

use crate::secret_source::{SecretError, SecretSource};

/// A credential of a VMI.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credential {
    /// The secret's directory, relative to the directory of all secrets.
    pub directory: String,
    /// The kind of credential in the secret.
    pub kind: CredentialKind,
}

/// The kind of credential in a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CredentialKind {
    /// Public keys, one per line; a file may have several.
    SshKeys {
        /// The users that get the keys.
        users: Vec<String>,
    },
    /// Passwords; each file is named after its user.
    Passwords,
}

/// A password. It does not appear in logs.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(Vec<u8>);

impl Password {
    /// The password's bytes, for the guest.
    pub fn reveal(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(…)")
    }
}

/// The credentials to set in the guest, by user.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GuestCredentials {
    /// All keys of each user, in order. Other keys are removed in the guest.
    pub keys: BTreeMap<String, Vec<String>>,
    /// The password of each user.
    pub passwords: BTreeMap<String, Password>,
    /// Errors of secrets that could not be read, with paths. Users whose keys such a secret contains are not in `keys`,
    /// so that their keys in the guest stay.
    pub unreadable: Vec<String>,
}

/// The VMI's credentials that are set through the guest agent.
pub fn agent_credentials(vmi: &Vmi) -> Vec<Credential> {
    let credentials = vmi.spec.access_credentials.iter();
    credentials.filter_map(credential).collect()
}

fn credential(credential: &Value) -> Option<Credential> {
    let source_and_agent = |kind: &str| {
        let source = credential.get(kind)?;
        let agent = source.get("propagationMethod")?.get("qemuGuestAgent")?;
        (!agent.is_null()).then_some((source, agent))
    };
    let directory = |source: &Value| {
        let name = source.pointer("/source/secret/secretName")?.as_str()?;
        (!name.is_empty()).then(|| format!("{name}-access-cred"))
    };
    if let Some((source, agent)) = source_and_agent("sshPublicKey") {
        let users = agent.get("users").and_then(Value::as_array);
        let users = users.into_iter().flatten().filter_map(Value::as_str);
        return Some(Credential {
            directory: directory(source)?,
            kind: CredentialKind::SshKeys {
                users: users.map(str::to_owned).collect(),
            },
        });
    }
    let (source, _) = source_and_agent("userPassword")?;
    Some(Credential {
        directory: directory(source)?,
        kind: CredentialKind::Passwords,
    })
}

impl GuestCredentials {
    /// Reads the secrets of the credentials.
    pub fn read(credentials: &[Credential], secrets: &dyn SecretSource) -> GuestCredentials {
        let mut guest = GuestCredentials::default();
        let mut incomplete_users = BTreeSet::new();
        for credential in credentials {
            match (&credential.kind, read_files(credential, secrets)) {
                (CredentialKind::SshKeys { users }, Ok(files)) => {
                    let keys: Vec<String> = files
                        .iter()
                        .flat_map(|(_, file)| parse_keys(file))
                        .collect();
                    for user in users {
                        let all = guest.keys.entry(user.clone()).or_default();
                        all.extend(keys.iter().cloned());
                    }
                }
                (CredentialKind::Passwords, Ok(files)) => {
                    let passwords = files
                        .into_iter()
                        .map(|(user, file)| (user, parse_password(&file)));
                    let passwords = passwords.filter(|(_, password)| !password.0.is_empty());
                    guest.passwords.extend(passwords);
                }
                (kind, Err(error)) => {
                    guest.unreadable.push(error.to_string());
                    if let CredentialKind::SshKeys { users } = kind {
                        incomplete_users.extend(users.iter());
                    }
                }
            }
        }
        guest
            .keys
            .retain(|user, _| !incomplete_users.contains(user));
        guest
    }
}

type NamedFile = (String, Vec<u8>);

fn read_files(
    credential: &Credential,
    secrets: &dyn SecretSource,
) -> Result<Vec<NamedFile>, SecretError> {
    let directory = &credential.directory;
    let mut files = Vec::new();
    for name in secrets.names(directory)? {
        if let Some(content) = secrets.file(directory, &name)? {
            files.push((name, content));
        }
    }
    Ok(files)
}

fn parse_keys(file: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(file);
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.map(str::to_owned).collect()
}

fn parse_password(file: &[u8]) -> Password {
    Password(file.trim_ascii().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    const VMI: &str = r#"{"metadata":{"name":"vm","namespace":"ns"},"spec":{"accessCredentials":[
        {"sshPublicKey":{"source":{"secret":{"secretName":"team"}},"propagationMethod":{"qemuGuestAgent":{"users":["fedora","admin"]}}}},
        {"sshPublicKey":{"source":{"secret":{"secretName":"boss"}},"propagationMethod":{"qemuGuestAgent":{"users":["admin"]}}}},
        {"sshPublicKey":{"source":{"secret":{"secretName":"cloud"}},"propagationMethod":{"noCloud":{}}}},
        {"sshPublicKey":{"source":{},"propagationMethod":{"qemuGuestAgent":{"users":["nobody"]}}}},
        {"userPassword":{"source":{"secret":{"secretName":"passwords"}},"propagationMethod":{"qemuGuestAgent":{}}}},
        {}, null]}}"#;

    /// Secret files: directory, name and content.
    struct Secrets(&'static [(&'static str, &'static str, &'static str)]);

    impl SecretSource for Secrets {
        fn file(&self, directory: &str, name: &str) -> Result<Option<Vec<u8>>, SecretError> {
            let mut files = self.0.iter();
            let file = files.find(|(parent, file, _)| *parent == directory && *file == name);
            Ok(file.map(|(_, _, content)| content.as_bytes().to_vec()))
        }

        fn names(&self, directory: &str) -> Result<Vec<String>, SecretError> {
            let files = self.0.iter().filter(|(parent, _, _)| *parent == directory);
            let names: Vec<_> = files.map(|(_, name, _)| (*name).to_owned()).collect();
            if names.is_empty() {
                return Err(SecretError::Read {
                    path: format!("/secret/{directory}"),
                    source: std::io::Error::other("not there"),
                });
            }
            Ok(names)
        }
    }

    fn read_credentials(files: &'static [(&str, &str, &str)]) -> GuestCredentials {
        let vmi = Vmi::from_json(VMI.as_bytes()).unwrap();
        GuestCredentials::read(&agent_credentials(&vmi), &Secrets(files))
    }

    #[test]
    fn keys_and_passwords_are_read_for_each_user() {
        let credentials = read_credentials(&[
            ("team-access-cred", "a", "ssh-rsa one\n\n  ssh-rsa two \n"),
            ("team-access-cred", "b", "ssh-rsa three"),
            ("boss-access-cred", "key", "ssh-rsa four\n"),
            ("passwords-access-cred", "fedora", " s3cret\n"),
            ("passwords-access-cred", "empty", "\n"),
        ]);
        let team = ["ssh-rsa one", "ssh-rsa two", "ssh-rsa three"];
        assert_eq!(credentials.keys["fedora"], team);
        assert_eq!(credentials.keys["admin"][..3], team);
        assert_eq!(credentials.keys["admin"][3], "ssh-rsa four");
        assert_eq!(credentials.keys.len(), 2);
        assert_eq!(credentials.passwords.len(), 1);
        assert_eq!(credentials.passwords["fedora"].reveal(), b"s3cret");
        assert!(!format!("{credentials:?}").contains("s3cret"));
        assert_eq!(credentials.unreadable, [] as [String; 0]);
    }

    #[test]
    fn users_with_unreadable_keys_keep_the_keys_in_the_guest() {
        let credentials = read_credentials(&[("team-access-cred", "a", "ssh-rsa one")]);
        assert_eq!(credentials.keys.keys().collect::<Vec<_>>(), ["fedora"]);
        assert_eq!(
            credentials.unreadable,
            ["boss", "passwords"]
                .map(|name| format!("reading /secret/{name}-access-cred: not there"))
        );
    }
}
