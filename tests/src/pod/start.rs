//! Starts a pod: its namespaces, and the monitor and launcher in them.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};

use super::container_setup::install_program;
use super::{Pod, is_root, processes};
use crate::binaries::binary;
use crate::launcher_user::LauncherUser;
use crate::vmi_builder::Vmi;

/// The arguments of `unshare` for a user who is not root: a user namespace in which that user is uid 107.
const UNPRIVILEGED_UNSHARE_ARGUMENTS: &[&str] =
    &["--map-user=107", "--map-group=107", "--keep-caps"];

impl Pod {
    /// Starts the monitor, which starts the launcher, with virt-controller's arguments for `vmi` and `extra` arguments
    /// after them.
    pub fn start(&mut self, vmi: &Vmi, extra: &[&str]) -> Result<()> {
        let mut arguments = vec![
            "--name",
            vmi.name(),
            "--uid",
            vmi.uid(),
            "--namespace",
            vmi.namespace(),
        ];
        arguments.extend(["--kubevirt-share-dir", "/var/run/kubevirt"]);
        arguments.extend(["--ephemeral-disk-dir", "/var/run/kubevirt-ephemeral-disks"]);
        arguments.extend(["--container-disk-dir", "/var/run/kubevirt/container-disks"]);
        arguments.extend([
            "--grace-period-seconds",
            "20",
            "--allow-emulation",
            "--ovmf-path",
            "/usr/share/OVMF",
        ]);
        // With the default, a test would wait long for a QEMU that hangs. A test overrides it in `extra`.
        if !extra.contains(&"--qemu-timeout") {
            arguments.extend(["--qemu-timeout", "60s"]);
        }
        if self.user == LauncherUser::Nonroot {
            arguments.push("--run-as-nonroot");
        }
        arguments.extend(extra);
        self.start_with(&arguments)
    }

    /// Starts the monitor, which starts the launcher, with exactly these arguments.
    pub fn start_with(&mut self, arguments: &[&str]) -> Result<()> {
        let bin = self.directory.path().join("bin");
        for name in ["virt-launcher", "virt-launcher-monitor"] {
            let program = match &self.launcher_directory {
                Some(directory) => directory.join(name),
                None => binary(name)?,
            };
            install_program(&program, &bin.join(name))?;
        }
        self.run(&bin.join("virt-launcher-monitor"), arguments)
    }

    /// Runs any program as the pod's process 1.
    pub fn run(&mut self, program: &Path, arguments: &[&str]) -> Result<()> {
        let root = self.directory.path();
        let log = match self.log_pipe.take() {
            Some(pipe) => OwnedFd::from(pipe),
            None => OwnedFd::from(File::create(self.log_path())?),
        };
        // setpriv kills the pod when the thread that created it ends, in case this process is killed.
        let creator = self.creator.map(|uid| {
            let (uid, gid) = (format!("--reuid={uid}"), format!("--regid={uid}"));
            [uid, gid, "--clear-groups".to_owned()]
        });
        let child = Command::new("setpriv")
            .args(creator.iter().flatten())
            .args(["--pdeathsig", "KILL", "unshare"])
            .args(if is_root() && creator.is_none() {
                &[][..]
            } else {
                UNPRIVILEGED_UNSHARE_ARGUMENTS
            })
            .args([
                "--mount",
                "--pid",
                "--net",
                "--fork",
                "--kill-child=KILL",
                "--mount-proc",
            ])
            .args([
                "sh".as_ref(),
                root.join("pod.sh").as_os_str(),
                root.as_os_str(),
            ])
            .arg(self.user.id().to_string())
            .arg(program)
            .args(arguments)
            // As in a container. Otherwise QEMU would inherit cargo's variables.
            .env_clear()
            .env(
                "PATH",
                "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            )
            .env("POD_NAME", "virt-launcher-test")
            // KubeVirt's images name it in a file.
            .env("VIRT_LAUNCHER_KUBEVIRT_VERSION", "v1.9.0")
            .envs(self.environment.iter().map(|(name, text)| (name, text)))
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("setpriv and unshare (package util-linux)")?;
        self.init = Some(processes::first_child(child.id(), Duration::from_secs(5))?);
        self.child = Some(child);
        Ok(())
    }
}
