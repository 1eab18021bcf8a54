//! Changes to a pod before its launcher starts: network, programs, environment.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::Pod;
use crate::binaries::binary;

impl Pod {
    /// Sets up the pod's network before the launcher starts, as virt-handler does: `commands` are shell commands that
    /// run as root in the pod, where everybody may open `/dev/net/tun`. `resolv_conf` is the content of the pod's
    /// `/etc/resolv.conf`.
    pub fn set_up_network(&self, commands: &str, resolv_conf: &str) -> Result<()> {
        let root = self.directory.path();
        fs::write(root.join("resolv.conf"), resolv_conf)?;
        let prologue = include_str!("network.sh");
        Ok(fs::write(
            root.join("network.sh"),
            format!("{prologue}\n{commands}\n"),
        )?)
    }

    /// Replaces a file of this machine in the pod by an empty file; a masked program cannot be run there.
    pub fn mask_file(&self, masked: &Path) -> Result<()> {
        if !masked.exists() {
            return Ok(());
        }
        let name = masked.to_string_lossy().replace('/', "_");
        let empty = self.directory.path().join("mask").join(&name);
        fs::write(&empty, "")?;
        fs::set_permissions(&empty, fs::Permissions::from_mode(0o600))?;
        Ok(symlink(
            fs::canonicalize(masked)?,
            self.directory.path().join("masked").join(&name),
        )?)
    }

    /// Mounts a directory of this machine over another one in the pod.
    pub fn mount_over(&self, source: &Path, over: &Path) -> Result<()> {
        let name = over.to_string_lossy().replace('/', "_");
        symlink(source, self.directory.path().join("mask").join(&name))?;
        Ok(symlink(
            over,
            self.directory.path().join("masked").join(&name),
        )?)
    }

    /// Replaces a program in the pod by a shell script, which is found first in `PATH`.
    pub fn replace_program(&self, name: &str, script: &str) -> Result<()> {
        let path = self.directory.path().join("bin").join(name);
        fs::write(&path, script)?;
        Ok(fs::set_permissions(
            &path,
            fs::Permissions::from_mode(0o755),
        )?)
    }

    /// Creates a link to a script of [`Pod::replace_program`] at the path where a program of the pod looks for it.
    pub fn link_program(&self, name: &str, link: &Path) -> Result<()> {
        Ok(symlink(self.directory.path().join("bin").join(name), link)?)
    }

    /// Sets the user who creates the namespaces, as for a caller of [`Pod::create_unprivileged`] who is not root. Needs
    /// root, and must be called before the launcher starts.
    pub fn set_creator(&mut self, uid: u32) -> Result<()> {
        self.creator = Some(uid);
        let chown = Command::new("chown")
            .args(["-R", &format!("{uid}:{uid}")])
            .arg(self.directory.path())
            .status()?;
        ensure!(chown.success(), "chown: {chown}");
        Ok(())
    }

    /// Removes `/dev/userfaultfd` from the pod. Must be called before the launcher starts.
    pub fn hide_userfaultfd(&self) -> Result<()> {
        Ok(fs::write(self.directory.path().join("no-userfaultfd"), "")?)
    }

    /// Runs `virt-launcher` and `virt-launcher-monitor` of another build of this project in the pod. Must be called before
    /// the launcher starts.
    pub fn use_launcher_of(&mut self, directory: &Path) {
        self.launcher_directory = Some(directory.to_owned());
    }

    /// Runs KubeVirt's own `virt-launcher` and `virt-launcher-monitor` of `directory` in the pod. Must be called before
    /// the launcher starts.
    pub fn use_stock_launcher(&mut self, directory: &Path) -> Result<()> {
        self.launcher_directory = Some(directory.to_owned());
        let script = self.directory.path().join("stock_image_additions.sh");
        Ok(fs::write(script, include_str!("stock_image_additions.sh"))?)
    }

    /// Installs `virt-hook` as libvirt's hook in the pod, as the launcher's image does. Must be called before the
    /// launcher starts.
    pub fn install_libvirt_hook(&self) -> Result<()> {
        let client = self.directory.path().join("bin/libvirt-hook-client");
        install_program(&binary("virt-hook")?, &client)?;
        self.create_qemu_dir("/run/kubevirt-private/backend-storage-meta")?;
        let hooks = self.create_qemu_dir("/etc/libvirt/hooks")?;
        Ok(symlink(client, hooks.join("qemu"))?)
    }

    /// Installs `client` as `/usr/bin/libvirt-hook-client`, and replaces the libvirt hook of
    /// [`Pod::install_libvirt_hook`] by a script that always fails. Must be called before the launcher starts.
    pub fn install_hook_client_in_image(&self, client: &Path) -> Result<()> {
        let programs = self.directory.path().join("usr/bin");
        fs::create_dir_all(&programs)?;
        install_program(client, &programs.join("libvirt-hook-client"))?;
        let hook = self.path("/etc/libvirt/hooks/qemu");
        fs::remove_file(&hook)?;
        fs::write(&hook, "#!/bin/sh\necho the hook of the image >&2\nexit 1\n")?;
        Ok(fs::set_permissions(
            &hook,
            fs::Permissions::from_mode(0o755),
        )?)
    }

    /// Sets an environment variable of the pod's programs.
    pub fn set_env(&mut self, name: &str, text: &str) {
        self.environment.push((name.to_owned(), text.to_owned()));
    }
}

/// Links or copies a program to `to` in the pod's directory, since uid 107 may be unable to read the workspace.
pub(super) fn install_program(program: &Path, to: &Path) -> Result<()> {
    let _ = fs::remove_file(to);
    if fs::hard_link(program, to).is_err() {
        fs::copy(program, to)
            .with_context(|| format!("{} to {}", program.display(), to.display()))?;
    }
    Ok(())
}
