//! Puts libvirt's hook in its place: a link at `/etc/libvirt/hooks/qemu`, before libvirt's daemon starts, which looks for
//! it once.

use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// Where libvirt looks for the hook of QEMU's domains.
const HOOK: &str = "/etc/libvirt/hooks/qemu";
/// KubeVirt's name of the program.
const CLIENT: &str = "/usr/bin/libvirt-hook-client";

/// The hook cannot be put in place.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LinkError {
    /// The program is missing.
    #[error(
        "--libvirt-hook-server-and-client needs {CLIENT}, which is virt-hook under another name: {0}"
    )]
    NoClient(io::Error),
    /// The link.
    #[error("linking {path} to {CLIENT}: {source}")]
    Link {
        /// The link.
        path: PathBuf,
        /// Why it cannot be made.
        source: io::Error,
    },
}

/// Links libvirt's hook to the program, in place of what is there. Without the flag (`is_required`) an image that has
/// no such program, or that does not let the launcher write there, keeps its hook; hooks then have no effect on a VM that
/// arrives.
///
/// # Errors
/// [`LinkError`], if the link is required.
pub(crate) fn install(is_required: bool) -> Result<(), LinkError> {
    match install_at(Path::new(HOOK), Path::new(CLIENT)) {
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

fn install_at(hook: &Path, client: &Path) -> Result<(), LinkError> {
    std::fs::metadata(client).map_err(LinkError::NoClient)?;
    let failed = |source| LinkError::Link {
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
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn link_replaces_the_hook_that_is_there() {
        let directory = tempfile::tempdir().unwrap();
        let (hook, client) = (
            directory.path().join("qemu"),
            directory.path().join("client"),
        );
        assert!(matches!(
            install_at(&hook, &client),
            Err(LinkError::NoClient(_))
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
