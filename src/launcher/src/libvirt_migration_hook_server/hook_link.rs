//! Installs libvirt's hook: a link at `/etc/libvirt/hooks/qemu`. It must exist before libvirt's daemon starts, which
//! looks for the hook only once.

use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// The path of libvirt's hook for QEMU domains.
const HOOK_PATH: &str = "/etc/libvirt/hooks/qemu";
/// The path of the hook's program in KubeVirt's images.
const CLIENT_PATH: &str = "/usr/bin/libvirt-hook-client";

/// The hook could not be installed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HookLinkError {
    /// The hook's program does not exist.
    #[error(
        "--libvirt-hook-server-and-client, which KubeVirt always means from v1.10 on, needs {CLIENT_PATH}, which is virt-hook \
         under another name: {0}"
    )]
    MissingClient(io::Error),
    /// The link could not be made.
    #[error("linking {path} to {CLIENT_PATH}: {source}")]
    Link {
        /// The link.
        path: PathBuf,
        /// The error of the file system.
        source: io::Error,
    },
}

/// Links libvirt's hook to the program, and replaces an existing hook. `is_required` is whether the cluster
/// wants arriving domains edited. Otherwise a failure is only logged, for images without the program or with a
/// read-only directory; hooks then have no effect on a VM that arrives by a migration.
///
/// # Errors
/// [`HookLinkError`] if the link is required.
pub(crate) fn install(is_required: bool) -> Result<(), HookLinkError> {
    match install_at(Path::new(HOOK_PATH), Path::new(CLIENT_PATH)) {
        Err(error) if !is_required => {
            tracing::warn!(
                reason = %error,
                "libvirt's hook stays as it is: hooks have no effect on a VM that arrives by a migration"
            );
            Ok(())
        }
        result => result,
    }
}

fn install_at(hook: &Path, client: &Path) -> Result<(), HookLinkError> {
    std::fs::metadata(client).map_err(HookLinkError::MissingClient)?;
    let failed = |source| HookLinkError::Link {
        path: hook.to_owned(),
        source,
    };
    match std::fs::remove_file(hook) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    symlink(client, hook).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_replaces_an_existing_hook() {
        let directory = tempfile::tempdir().unwrap();
        let (hook, client) = (
            directory.path().join("qemu"),
            directory.path().join("client"),
        );
        assert!(matches!(
            install_at(&hook, &client),
            Err(HookLinkError::MissingClient(_))
        ));
        std::fs::write(&client, "").unwrap();
        std::fs::write(&hook, "KubeVirt's script").unwrap();
        for _ in 0..2 {
            install_at(&hook, &client).unwrap();
        }
        assert_eq!(std::fs::read_link(&hook).unwrap(), client);
        let nowhere = directory.path().join("none/qemu");
        let error = install_at(&nowhere, &client).unwrap_err().to_string();
        assert!(error.contains("none/qemu"), "{error}");
    }
}
