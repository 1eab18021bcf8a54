//! A pod: namespaces on this machine that stand for the launcher's container.
//!
//! Its `/run`, `/etc/libvirt` and `/var/{lib,log,cache}/libvirt` are directories of this machine below one temporary
//! directory, so that a test can read and write them, also after the pod has ended. Process 1 is the monitor, as in a
//! container. `/dev/kvm` is missing, so that QEMU emulates the CPU on every machine.

mod container_setup;
mod daemon_configuration;
mod directories;
mod paths_on_this_machine;
mod processes;
mod start;

use std::fs;
use std::io;
use std::path::PathBuf;
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

pub use crate::launcher_user::{LauncherUser, QEMU_UID};
pub use processes::Process;

use crate::guest_console_log::ConsoleLog;
use crate::pod_semaphore::{self, PodPermit};
use crate::vmi_builder::Vmi;

/// A pod. Dropping it ends all its processes.
#[derive(Debug)]
pub struct Pod {
    directory: TempDir,
    user: LauncherUser,
    environment: Vec<(String, String)>,
    child: Option<Child>,
    init: Option<Pid>,
    is_log_suppressed: bool,
    /// Where the pod writes its log instead of [`Pod::log_path`].
    log_pipe: Option<io::PipeWriter>,
    /// The directory of launcher and monitor, if they are not those of this build.
    launcher_directory: Option<PathBuf>,
    /// The user who creates the namespaces, if it is not the user of this process.
    creator: Option<u32>,
    _permit: PodPermit,
}

impl Pod {
    /// Waits for a permit of the [`pod_semaphore`] and creates an empty pod. Fails with a message if this process is
    /// not root.
    pub fn create(user: LauncherUser) -> Result<Pod> {
        if !is_root() {
            bail!(
                "pods are made of mount and pid namespaces, which needs root: run this as root, or 'make test'"
            );
        }
        Pod::create_as(user)
    }

    /// A pod for libvirt's test driver, in which neither a daemon nor QEMU runs. If this process is not root, the pod
    /// has a user namespace in which this process's user is uid 107.
    pub fn create_unprivileged() -> Result<Pod> {
        Pod::create_as(LauncherUser::Nonroot)
    }

    fn create_as(user: LauncherUser) -> Result<Pod> {
        let permit = pod_semaphore::acquire()?;
        let directory = tempfile::Builder::new().prefix("pod-").tempdir()?;
        let pod = Pod {
            directory,
            user,
            environment: Vec::new(),
            child: None,
            init: None,
            is_log_suppressed: false,
            log_pipe: None,
            launcher_directory: None,
            creator: None,
            _permit: permit,
        };
        pod.create_directories()?;
        Ok(pod)
    }

    /// The user that the launcher runs as in this pod.
    pub fn user(&self) -> LauncherUser {
        self.user
    }

    /// Lets the pod that is started next write its log to a pipe, of which this is the end to read.
    pub fn log_to_pipe(&mut self) -> io::Result<io::PipeReader> {
        let (reader, writer) = io::pipe()?;
        self.log_pipe = Some(writer);
        Ok(reader)
    }

    /// Does not print the pod's log when it is dropped.
    pub fn suppress_log(&mut self) {
        self.is_log_suppressed = true;
    }

    /// The content of [`Pod::log_path`].
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.log_path()).unwrap_or_default()).into_owned()
    }

    /// The lines of [`Pod::log`] that are JSON objects.
    pub fn log_entries(&self) -> Vec<Value> {
        self.log()
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect()
    }

    /// The serial console of `vmi`'s guest.
    pub fn console(&self, vmi: &Vmi) -> ConsoleLog {
        ConsoleLog {
            path: self.path(&format!(
                "/run/kubevirt-private/{}/virt-serial0-log",
                vmi.uid()
            )),
        }
    }

    /// The pod's processes, including process 1.
    pub fn processes(&self) -> Vec<Process> {
        self.init
            .map(processes::processes_of_pod)
            .unwrap_or_default()
    }

    /// The pod's process called `name` (the first 15 bytes of its program's name), if it runs.
    pub fn process(&self, name: &str) -> Option<Process> {
        let name = &name[..name.len().min(15)];
        self.processes()
            .into_iter()
            .find(|process| process.name == name)
    }

    /// The pod's QEMU, if it runs.
    pub fn qemu(&self) -> Option<Process> {
        self.process("qemu-system-x86_64")
    }

    /// The libvirt daemon of the pod, if it runs.
    pub fn daemon(&self) -> Option<Process> {
        self.process("virtqemud")
            .or_else(|| self.process("libvirtd"))
    }

    /// Sends a signal to the pod's process 1, as the kubelet does.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        let init = self.init.context("the pod was not started")?;
        Ok(kill_process(init, signal)?)
    }

    /// Waits for the pod's process 1 to end.
    pub async fn wait_for_exit(&mut self, deadline: Duration) -> Result<ExitStatus> {
        let begin = Instant::now();
        let child = self.child.as_mut().context("the pod was not started")?;
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(status);
            }
            if begin.elapsed() > deadline {
                bail!(
                    "the pod still runs after {deadline:?}; its log:\n{}",
                    self.log()
                );
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

impl Drop for Pod {
    fn drop(&mut self) {
        if !self.is_log_suppressed {
            self.print_log();
        }
        let Some(mut child) = self.child.take() else {
            return;
        };
        if let (Ok(None), Some(init)) = (child.try_wait(), self.init) {
            let _ = kill_process(init, Signal::KILL);
        }
        let _ = child.wait();
    }
}

impl Pod {
    /// Cargo shows this output only for a test that failed.
    #[allow(clippy::print_stderr)]
    fn print_log(&self) {
        eprintln!(
            "---- log of the pod ({:?}) ----\n{}---- end ----",
            self.user,
            self.log()
        );
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
