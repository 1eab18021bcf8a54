//! The directory and the name of the socket.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Result, bail};

use super::Arguments;

/// The directory in a hook sidecar to which KubeVirt mounts that sidecar's hooks directory.
const HOOKS_DIR: &str = "/var/run/kubevirt-hooks";
/// The directory that has a sub-directory for each plugin, with the plugin's name.
const PLUGINS_DIR: &str = "/var/run/kubevirt-plugin";
/// The name of a plugin's socket. A Plugin names its socket, so the name is fixed: it is the one that `virt-hook
/// deploy` writes, and a launcher looks for `hook.wasm` beside it.
const PLUGIN_SOCKET: &str = "hook.sock";
/// The environment variable in which KubeVirt passes the name of a sidecar's container.
const CONTAINER_NAME_VARIABLE: &str = "CONTAINER_NAME";
/// Maximum length of a Kubernetes name.
const MAX_NAME: usize = 253;

/// The directory and the file name of the socket.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SocketPath {
    pub(super) directory: PathBuf,
    pub(super) file: String,
}

pub(super) fn socket_path(arguments: &Arguments) -> Result<SocketPath> {
    let container = std::env::var(CONTAINER_NAME_VARIABLE).ok();
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
        (None, Some(plugin)) => Path::new(PLUGINS_DIR).join(plugin),
        (None, None) => PathBuf::from(HOOKS_DIR),
    };
    let file = match (&arguments.socket, &arguments.plugin) {
        (Some(file), _) => check_socket_name(file)?,
        (None, Some(_)) => PLUGIN_SOCKET.to_owned(),
        (None, None) => format!("virt-hook-{}.sock", unique_name(container)),
    };
    Ok(SocketPath { directory, file })
}

/// A name that is unique in the pod: launchers tell sidecars of a pod apart by their sockets' file names. The
/// container's name is unique in its pod, and stays the same when the container is started again.
fn unique_name(container: Option<&str>) -> String {
    match container.filter(|name| is_name(name)) {
        Some(name) => name.to_owned(),
        None => {
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
            let nanos = now.map_or(0, |now| now.as_nanos());
            format!("{:x}-{:x}", std::process::id(), nanos & 0xffff_ffff)
        }
    }
}

/// Checks KubeVirt's rule for the socket of a plugin. Launchers ignore hidden files.
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
    use super::*;
    use crate::host_version_options::HostVersionOptions;

    fn serve_arguments(plugin: Option<&str>, socket: Option<&str>) -> Arguments {
        Arguments {
            modules: Vec::new(),
            plugin: plugin.map(str::to_owned),
            hooks_dir: None,
            socket: socket.map(str::to_owned),
            policy: None,
            namespace: String::new(),
            compile_unconfined: false,
            hook_record: None,
            pod_info_dir: "/etc/virt-hook/pod-info".into(),
            hook_artifacts: None,
            versions: HostVersionOptions::default(),
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
            path(&serve_arguments(None, None), Some("hook-sidecar-1")),
            "/var/run/kubevirt-hooks/virt-hook-hook-sidecar-1.sock"
        );
        assert_eq!(
            path(&serve_arguments(Some("smbios"), None), Some("x")),
            "/var/run/kubevirt-plugin/smbios/hook.sock"
        );
        assert_eq!(
            path(&serve_arguments(Some("a"), Some("b.sock")), None),
            "/var/run/kubevirt-plugin/a/b.sock"
        );
        assert_ne!(
            path(&serve_arguments(None, None), None),
            path(&serve_arguments(None, None), None)
        );
        assert!(!path(&serve_arguments(None, None), Some("../x")).contains(".."));
    }

    #[test]
    fn names_with_path_traversal_and_invalid_socket_names_are_refused() {
        for (plugin, socket) in [
            (Some("../x"), None),
            (Some(""), None),
            (None, Some("x")),
            (None, Some("../x.sock")),
            (None, Some(".x.sock")),
        ] {
            assert!(
                socket_path_in(&serve_arguments(plugin, socket), None).is_err(),
                "{plugin:?} {socket:?}"
            );
        }
    }
}
