//! A pod that only runs a libvirt daemon, and virsh as its client.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tests::pod::{LauncherUser, Pod};

/// A pod that only runs a libvirt daemon.
pub(crate) struct DaemonOnlyPod {
    pod: Pod,
}

impl DaemonOnlyPod {
    /// Starts the daemon and waits until it answers.
    pub(crate) async fn start() -> Result<DaemonOnlyPod> {
        DaemonOnlyPod::start_in(Pod::create(LauncherUser::Root)?).await
    }

    /// As [`DaemonOnlyPod::start`], in a pod that the test has prepared.
    pub(crate) async fn start_in(mut pod: Pod) -> Result<DaemonOnlyPod> {
        pod.suppress_log();
        let program = ["/usr/sbin/virtqemud", "/usr/sbin/libvirtd"]
            .into_iter()
            .find(|program| Path::new(program).exists())
            .context("neither virtqemud nor libvirtd is installed")?;
        // The shell is process 1 and reaps orphans, for which libvirt's probes of QEMU wait.
        pod.run(Path::new("/bin/sh"), &["-c", "\"$0\" & wait", program])?;
        let daemon = DaemonOnlyPod { pod };
        let answers = async || {
            let answer = daemon.virsh(Stdio::null(), &["version"]);
            answer
                .is_ok_and(|output| output.status.success())
                .then_some(())
        };
        tests::wait_until("libvirt's daemon", Duration::from_secs(60), answers).await?;
        Ok(daemon)
    }

    /// The path on this machine of a path in the pod.
    pub(crate) fn path(&self, in_pod: &str) -> PathBuf {
        self.pod.path(in_pod)
    }

    /// Runs virsh with `arguments`, and with `commands` as its input.
    pub(crate) fn virsh(&self, commands: impl Into<Stdio>, arguments: &[&str]) -> Result<Output> {
        let socket = ["virtqemud-sock", "libvirt-sock"]
            .map(|name| self.pod.path("/run/libvirt").join(name))
            .into_iter()
            .find(|socket| socket.exists())
            .context("the daemon has no socket yet")?;
        let socket = format!("qemu:///system?socket={}", socket.display());
        Command::new("virsh")
            .args(["--connect", &socket])
            .args(arguments)
            .stdin(commands)
            .output()
            .context("virsh (package libvirt-clients)")
    }

    /// Runs one virsh command, and returns its output.
    pub(crate) fn virsh_output(&self, arguments: &[&str]) -> Result<String> {
        let output = self.virsh(Stdio::null(), arguments)?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(
            output.status.success(),
            "virsh {arguments:?}: {}",
            errors.trim()
        );
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}
