//! Credentials for a registry, read from Docker's `config.json` and the `auth.json` of the containers tools.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value as Json;

use crate::image_reference::DOCKER_HUB;
use crate::{Reference, RegistryError};

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
    /// What `podman login` or `docker login` stored for an image's repository or registry, if anything: in the file of
    /// `REGISTRY_AUTH_FILE`, else podman's, else Docker's.
    pub fn stored(reference: &Reference) -> Result<Option<Self>, RegistryError> {
        let run = Path::new("/run/containers").join(rustix::process::getuid().to_string());
        let files = files(&|name| std::env::var_os(name), &run);
        in_files(&files, reference)
    }

    pub(crate) fn basic(&self) -> String {
        let pair = format!("{}:{}", self.username, self.password);
        format!("Basic {}", STANDARD.encode(pair))
    }
}

/// The files in the order of podman: where root without a session has them too (`run`), and those that outlast a restart.
fn files(variable: &dyn Fn(&str) -> Option<OsString>, run: &Path) -> Vec<PathBuf> {
    let directory = |name: &str| variable(name).map(PathBuf::from);
    if let Some(file) = directory("REGISTRY_AUTH_FILE") {
        return vec![file];
    }
    let home = directory("HOME");
    let session = directory("XDG_RUNTIME_DIR").map(|dir| dir.join("containers"));
    let config = directory("XDG_CONFIG_HOME").or_else(|| Some(home.as_ref()?.join(".config")));
    let podman = [
        Some(session.unwrap_or_else(|| run.to_owned())),
        config.map(|dir| dir.join("containers")),
    ];
    let podman = podman
        .into_iter()
        .flatten()
        .map(|dir| dir.join("auth.json"));
    let docker = directory("DOCKER_CONFIG").or_else(|| Some(home?.join(".docker")));
    podman
        .chain(docker.map(|dir| dir.join("config.json")))
        .collect()
}

fn in_files(
    files: &[PathBuf],
    reference: &Reference,
) -> Result<Option<Credentials>, RegistryError> {
    for path in files {
        if path.is_file() {
            let found = in_file(path, reference)?;
            if found.is_some() {
                return Ok(found);
            }
        }
    }
    Ok(None)
}

/// What may name the credentials of an image, the longest first: its repository, the directories of that, and the registry.
fn keys(reference: &Reference) -> Vec<String> {
    let host = plain_key(reference.host());
    let mut path = reference.repository();
    let mut keys = vec![format!("{host}/{path}")];
    while let Some((parent, _)) = path.rsplit_once('/') {
        path = parent;
        keys.push(format!("{host}/{path}"));
    }
    keys.push(host);
    keys
}

/// A key without what Docker writes around the registry (`https://index.docker.io/v1/`), and with one name for Docker Hub.
fn plain_key(key: &str) -> String {
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

fn in_file(path: &Path, reference: &Reference) -> Result<Option<Credentials>, RegistryError> {
    let unusable = |reason: String| RegistryError::Setup(format!("{}: {reason}", path.display()));
    let mut content = Vec::new();
    let file = File::open(path).map_err(|error| unusable(error.to_string()))?;
    let read = file.take(MAX_CONFIG).read_to_end(&mut content);
    read.map_err(|error| unusable(error.to_string()))?;
    let config: Json = serde_json::from_slice(&content)
        .map_err(|error| unusable(format!("it is not JSON: {error}")))?;
    let entry_of = |member: &str, wanted: &str| {
        let mut entries = config[member].as_object().into_iter().flatten();
        entries
            .find(|(key, _)| plain_key(key) == wanted)
            .map(|(_, entry)| entry)
    };
    let host = reference.host();
    let own_helper = entry_of("credHelpers", &plain_key(host)).and_then(Json::as_str);
    let keys = keys(reference);
    let entry = keys.iter().find_map(|key| entry_of("auths", key));
    let auth = entry.and_then(|entry| entry["auth"].as_str());
    let Some(auth) = auth.filter(|auth| !auth.is_empty()) else {
        let helper = own_helper.or(config["credsStore"].as_str());
        return match helper {
            Some(helper) if entry.is_some() || own_helper.is_some() => Err(unusable(format!(
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Credentials whose password is their key.
    fn write(file: &Path, keys: &[&str]) {
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        let auths = keys.iter().map(|key| {
            let auth = STANDARD.encode(format!("alice:{key}"));
            ((*key).to_owned(), json!({"auth": auth}))
        });
        let auths: serde_json::Map<_, _> = auths.collect();
        std::fs::write(file, json!({"auths": auths}).to_string()).unwrap();
    }

    fn password(files: &[PathBuf], reference: &str) -> Option<String> {
        let found = in_files(files, &reference.parse().unwrap()).unwrap();
        found.map(|credentials| credentials.password)
    }

    #[test]
    fn files_are_those_of_podman_and_docker_in_their_order() {
        let directory = tempfile::tempdir().unwrap();
        let at = |path: &str| directory.path().join(path);
        let run = at("run/containers/0");
        let cases: &[(&[(&str, &str)], &str)] = &[
            (&[], "run/containers/0/auth.json"),
            (
                &[("XDG_RUNTIME_DIR", "session")],
                "session/containers/auth.json",
            ),
            (&[("HOME", "home")], "home/.config/containers/auth.json"),
            (
                &[("XDG_CONFIG_HOME", "config")],
                "config/containers/auth.json",
            ),
            (&[("HOME", "home")], "home/.docker/config.json"),
            (&[("DOCKER_CONFIG", "docker")], "docker/config.json"),
            (&[("REGISTRY_AUTH_FILE", "own.json")], "own.json"),
        ];
        for (variables, file) in cases {
            let variable = |name: &str| {
                let mut variables = variables.iter();
                let found = variables.find(|(known, _)| *known == name);
                found.map(|(_, value)| at(value).into_os_string())
            };
            let files = files(&variable, &run);
            assert_eq!(password(&files, "r.example/a"), None, "{file}");
            write(&at(file), &["r.example"]);
            let found = password(&files, "r.example/a");
            assert_eq!(found.as_deref(), Some("r.example"), "{file}");
            std::fs::remove_file(at(file)).unwrap();
        }
        // A session's login is newer than the one that is kept, and podman's comes before Docker's.
        let variable = |name: &str| (name == "HOME").then(|| at("home").into_os_string());
        let order = files(&variable, &run);
        for (number, path) in order.iter().enumerate().rev() {
            write(path, &["r.example", &format!("r.example/{number}")]);
            let found = password(&order, &format!("r.example/{number}"));
            assert_eq!(found, Some(format!("r.example/{number}")));
        }
        assert_eq!(order.len(), 3);
    }

    #[test]
    fn the_longest_key_of_a_repository_wins() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("auth.json");
        let hub = "https://index.docker.io/v1/";
        let cases: &[(&[&str], &str, Option<&str>)] = &[
            (&["r.example"], "r.example/a/b:1", Some("r.example")),
            (
                &["r.example", "r.example/a"],
                "r.example/a/b",
                Some("r.example/a"),
            ),
            (
                &["r.example/a", "r.example/a/b"],
                "r.example/a/b",
                Some("r.example/a/b"),
            ),
            (&["r.example/a"], "r.example/ab", None),
            (&["r.example/a"], "r.example/b", None),
            (&["r.example"], "r.example:5000/a", None),
            (
                &["https://r.example"],
                "r.example/a",
                Some("https://r.example"),
            ),
            (
                &["https://r.example/v1/"],
                "r.example/a",
                Some("https://r.example/v1/"),
            ),
            (&[hub], "docker.io/library/a", Some(hub)),
            (&[hub], "registry-1.docker.io/library/a", Some(hub)),
            (&["docker.io"], "docker.io/me/a", Some("docker.io")),
            (
                &["docker.io/me", hub],
                "docker.io/me/a",
                Some("docker.io/me"),
            ),
            (
                &["docker.io"],
                "registry-1.docker.io/me/a",
                Some("docker.io"),
            ),
        ];
        for (keys, reference, expected) in cases {
            write(&file, keys);
            let found = password(std::slice::from_ref(&file), reference);
            assert_eq!(found.as_deref(), *expected, "{keys:?} {reference}");
        }
    }
}
