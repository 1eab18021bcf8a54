//! Credentials for a registry, read from Docker's `config.json` and the `auth.json` of the containers tools.

#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value as Json;

use crate::image_reference::DOCKER_HUB;
use crate::{Reference, RegistryError};

/// The maximum number of bytes that are read of a configuration of Docker or podman.
const MAX_CONFIG_BYTES: u64 = 1 << 20;

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
    /// The credentials that `podman login` or `docker login` stored for an image's repository or registry, if any:
    /// from the file of `REGISTRY_AUTH_FILE` if that is set, else from podman's files, else from Docker's.
    pub fn stored(reference: &Reference) -> Result<Option<Self>, RegistryError> {
        let run_dir = Path::new("/run/containers").join(rustix::process::getuid().to_string());
        let files = auth_files(&|name| std::env::var_os(name), &run_dir);
        read_files(&files, reference)
    }

    /// The value of `Authorization` for the Basic scheme.
    pub(crate) fn basic_authorization(&self) -> String {
        let pair = format!("{}:{}", self.username, self.password);
        format!("Basic {}", STANDARD.encode(pair))
    }
}

/// The files in podman's order: the session's file (in `run_dir` without a session, as for root), the file that
/// outlasts a restart, and Docker's.
fn auth_files(variable: &dyn Fn(&str) -> Option<OsString>, run_dir: &Path) -> Vec<PathBuf> {
    let path_from = |name: &str| variable(name).map(PathBuf::from);
    if let Some(file) = path_from("REGISTRY_AUTH_FILE") {
        return vec![file];
    }
    let home = path_from("HOME");
    let session = path_from("XDG_RUNTIME_DIR").map(|dir| dir.join("containers"));
    let config = path_from("XDG_CONFIG_HOME").or_else(|| Some(home.as_ref()?.join(".config")));
    let podman = [
        Some(session.unwrap_or_else(|| run_dir.to_owned())),
        config.map(|dir| dir.join("containers")),
    ];
    let podman = podman
        .into_iter()
        .flatten()
        .map(|dir| dir.join("auth.json"));
    let docker = path_from("DOCKER_CONFIG").or_else(|| Some(home?.join(".docker")));
    podman
        .chain(docker.map(|dir| dir.join("config.json")))
        .collect()
}

fn read_files(
    files: &[PathBuf],
    reference: &Reference,
) -> Result<Option<Credentials>, RegistryError> {
    for path in files {
        if path.is_file() {
            let credentials = read_file(path, reference)?;
            if credentials.is_some() {
                return Ok(credentials);
            }
        }
    }
    Ok(None)
}

/// The keys under which the credentials of an image may be stored, the longest first: its repository, the parent paths
/// of the repository, and the registry.
fn keys(reference: &Reference) -> Vec<String> {
    let host = normalize_key(reference.host());
    let mut path = reference.repository();
    let mut keys = vec![format!("{host}/{path}")];
    while let Some((parent, _)) = path.rsplit_once('/') {
        path = parent;
        keys.push(format!("{host}/{path}"));
    }
    keys.push(host);
    keys
}

/// A key in one spelling: without the scheme and version that Docker writes around the registry
/// (`https://index.docker.io/v1/`), and with one name for Docker Hub.
fn normalize_key(key: &str) -> String {
    let scheme = ["https://", "http://"];
    let rest = scheme.iter().find_map(|scheme| key.strip_prefix(scheme));
    let key = rest.map_or(key, |rest| rest.split('/').next().unwrap_or(rest));
    let (host, path) = key.split_once('/').unwrap_or((key, ""));
    let host = if DOCKER_HUB.contains(&host) {
        DOCKER_HUB[0]
    } else {
        host
    };
    let path = path.trim_end_matches('/');
    match path {
        "" => host.to_owned(),
        path => format!("{host}/{path}"),
    }
}

fn read_file(path: &Path, reference: &Reference) -> Result<Option<Credentials>, RegistryError> {
    let unusable = |reason: String| RegistryError::Setup(format!("{}: {reason}", path.display()));
    let mut content = Vec::new();
    let file = File::open(path).map_err(|error| unusable(error.to_string()))?;
    let result = file.take(MAX_CONFIG_BYTES).read_to_end(&mut content);
    result.map_err(|error| unusable(error.to_string()))?;
    let config: Json = serde_json::from_slice(&content)
        .map_err(|error| unusable(format!("it is not JSON: {error}")))?;
    let entry_of = |member: &str, wanted_key: &str| {
        let mut entries = config[member].as_object().into_iter().flatten();
        entries
            .find(|(key, _)| normalize_key(key) == wanted_key)
            .map(|(_, entry)| entry)
    };
    let host = reference.host();
    let registry_helper = entry_of("credHelpers", &normalize_key(host)).and_then(Json::as_str);
    let keys = keys(reference);
    let entry = keys.iter().find_map(|key| entry_of("auths", key));
    let auth = entry.and_then(|entry| entry["auth"].as_str());
    let Some(auth) = auth.filter(|auth| !auth.is_empty()) else {
        let helper = registry_helper.or(config["credsStore"].as_str());
        return match helper {
            Some(helper) if entry.is_some() || registry_helper.is_some() => Err(unusable(format!(
                "the credentials of {host} are with the helper {helper:?}, which is not \
                 supported: give --username and --password-stdin"
            ))),
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
