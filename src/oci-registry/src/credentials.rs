//! Who asks.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value as Json;

use crate::RegistryError;

/// The largest configuration of Docker or podman that is read, in bytes.
const MAX_CONFIG: u64 = 1 << 20;

/// A user name and password.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The user.
    pub username: String,
    /// The password, or a token.
    pub password: String,
}

/// The password is left out.
impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Credentials({:?})", self.username)
    }
}

impl Credentials {
    /// What `podman login` or `docker login` stored for a registry, if anything: in the file of
    /// `REGISTRY_AUTH_FILE`, else podman's, else Docker's.
    pub fn stored(host: &str) -> Result<Option<Self>, RegistryError> {
        for path in files() {
            if path.is_file() {
                let found = in_file(&path, host)?;
                if found.is_some() {
                    return Ok(found);
                }
            }
        }
        Ok(None)
    }

    pub(crate) fn basic(&self) -> String {
        let pair = format!("{}:{}", self.username, self.password);
        format!("Basic {}", STANDARD.encode(pair))
    }
}

fn files() -> Vec<PathBuf> {
    let directory = |name: &str| std::env::var_os(name).map(PathBuf::from);
    if let Some(file) = directory("REGISTRY_AUTH_FILE") {
        return vec![file];
    }
    let podman = directory("XDG_RUNTIME_DIR").map(|dir| dir.join("containers/auth.json"));
    let docker = directory("DOCKER_CONFIG").or_else(|| Some(directory("HOME")?.join(".docker")));
    let docker = docker.map(|dir| dir.join("config.json"));
    podman.into_iter().chain(docker).collect()
}

fn in_file(path: &Path, host: &str) -> Result<Option<Credentials>, RegistryError> {
    let unusable = |reason: String| RegistryError::Setup(format!("{}: {reason}", path.display()));
    let mut content = Vec::new();
    let file = File::open(path).map_err(|error| unusable(error.to_string()))?;
    let read = file.take(MAX_CONFIG).read_to_end(&mut content);
    read.map_err(|error| unusable(error.to_string()))?;
    let config: Json = serde_json::from_slice(&content)
        .map_err(|error| unusable(format!("it is no JSON: {error}")))?;
    let helper = config["credHelpers"][host]
        .as_str()
        .or(config["credsStore"].as_str());
    let entry = &config["auths"][host];
    let Some(auth) = entry["auth"].as_str().filter(|auth| !auth.is_empty()) else {
        return match helper {
            Some(helper) if !entry.is_null() || !config["credHelpers"][host].is_null() => {
                Err(unusable(format!(
                    "the credentials of {host} are with the helper {helper:?}, which is not \
                     supported: give --username and --password-stdin"
                )))
            }
            _ => Ok(None),
        };
    };
    let pair = STANDARD
        .decode(auth)
        .ok()
        .and_then(|pair| String::from_utf8(pair).ok());
    let pair = pair.as_deref().and_then(|pair| pair.split_once(':'));
    let (username, password) =
        pair.ok_or_else(|| unusable(format!("the entry of {host} cannot be decoded")))?;
    Ok(Some(Credentials {
        username: username.to_owned(),
        password: password.to_owned(),
    }))
}
