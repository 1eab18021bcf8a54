//! The directory and the name of the socket.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Result, bail};

use super::arguments::Arguments;

/// Where KubeVirt mounts a hook sidecar's own directory into it.
const HOOKS: &str = "/var/run/kubevirt-hooks";
/// Below it, each plugin has a directory of its own name.
const PLUGINS: &str = "/var/run/kubevirt-plugin";
/// A plugin names its socket, so the name is always the same: the one that `virt-hook deploy` gives Plugins, and beside which a
/// launcher looks for `hook.wasm`.
const PLUGIN_SOCKET: &str = "hook.sock";
/// What KubeVirt calls a sidecar's container, as an environment variable in it.
const CONTAINER: &str = "CONTAINER_NAME";
/// A Kubernetes name.
const MAX_NAME: usize = 253;

/// The directory and the file name of the socket.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SocketPath {
    pub(super) directory: PathBuf,
    pub(super) file: String,
}

pub(super) fn socket_path(arguments: &Arguments) -> Result<SocketPath> {
    let container = std::env::var(CONTAINER).ok();
    socket_path_in(arguments, container.as_deref())
}

fn socket_path_in(arguments: &Arguments, container: Option<&str>) -> Result<SocketPath> {
    if let Some(plugin) = arguments.plugin.as_deref().filter(|name| !is_name(name)) {
        bail!(
            "--plugin {plugin:?} is not the name of a Plugin (lower case letters, digits, - and .)"
        );
    }
    let directory = match (&arguments.hooks_dir, &arguments.plugin) {
        (Some(directory), _) => directory.clone(),
        (None, Some(plugin)) => Path::new(PLUGINS).join(plugin),
        (None, None) => PathBuf::from(HOOKS),
    };
    let file = match (&arguments.socket, &arguments.plugin) {
        (Some(file), _) => check_socket_name(file)?,
        (None, Some(_)) => PLUGIN_SOCKET.to_owned(),
        (None, None) => format!("virt-hook-{}.sock", unique(container)),
    };
    Ok(SocketPath { directory, file })
}

/// Launchers tell sidecars of one pod apart by their sockets' file names. The container's name is
/// unique in its pod, and still the same when the container is started again.
fn unique(container: Option<&str>) -> String {
    match container.filter(|name| is_name(name)) {
        Some(name) => name.to_owned(),
        None => {
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
            let nanos = now.map_or(0, |now| now.as_nanos());
            format!("{:x}-{:x}", std::process::id(), nanos & 0xffff_ffff)
        }
    }
}

/// KubeVirt's rule for a plugin's socket, and hidden files are no sockets to launchers.
fn check_socket_name(file: &str) -> Result<String> {
    if file.ends_with(".sock") && !file.starts_with('.') && !file.contains('/') {
        return Ok(file.to_owned());
    }
    bail!(
        "--socket {file:?} must be a file name that ends with .sock and does not begin with a dot"
    );
}

fn is_name(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
    (1..=MAX_NAME).contains(&name.len()) && name.chars().all(allowed) && !name.starts_with('.')
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::host_version_options::KnownVersions;

    fn serve(plugin: Option<&str>, socket: Option<&str>) -> Arguments {
        Arguments {
            modules: Vec::new(),
            plugin: plugin.map(str::to_owned),
            hooks_dir: None,
            socket: socket.map(str::to_owned),
            policy: None,
            namespace: String::new(),
            hook_record: None,
            pod_info_dir: "/etc/virt-hook/pod-info".into(),
            hook_artifacts: None,
            versions: KnownVersions::default(),
            metrics: None,
        }
    }

    fn path(arguments: &Arguments, container: Option<&str>) -> String {
        let path = socket_path_in(arguments, container).unwrap();
        path.directory.join(path.file).display().to_string()
    }

    #[test]
    fn default_paths_are_kubevirts() {
        assert_eq!(
            path(&serve(None, None), Some("hook-sidecar-1")),
            "/var/run/kubevirt-hooks/virt-hook-hook-sidecar-1.sock"
        );
        assert_eq!(
            path(&serve(Some("smbios"), None), Some("x")),
            "/var/run/kubevirt-plugin/smbios/hook.sock"
        );
        assert_eq!(
            path(&serve(Some("a"), Some("b.sock")), None),
            "/var/run/kubevirt-plugin/a/b.sock"
        );
        assert_ne!(
            path(&serve(None, None), None),
            path(&serve(None, None), None)
        );
        assert!(!path(&serve(None, None), Some("../x")).contains(".."));
    }

    #[test]
    fn names_stay_in_their_directory() {
        for (plugin, socket) in [
            (Some("../x"), None),
            (Some(""), None),
            (None, Some("x")),
            (None, Some("../x.sock")),
            (None, Some(".x.sock")),
        ] {
            assert!(
                socket_path_in(&serve(plugin, socket), None).is_err(),
                "{plugin:?} {socket:?}"
            );
        }
    }
}
