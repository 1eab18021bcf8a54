//! A pod for tests: a directory with the monitor and a virt-launcher that is a shell script.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, geteuid, kill_process};

/// A directory with the monitor and a virt-launcher that is a shell script.
pub(crate) struct Pod {
    directory: tempfile::TempDir,
}

impl Pod {
    /// Installs the monitor, and `script` as virt-launcher.
    pub(crate) fn new(script: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().to_owned();
        install(
            Path::new(env!("CARGO_BIN_EXE_virt-launcher-monitor")),
            &path.join("virt-launcher-monitor"),
        );
        fs::create_dir(path.join("disks")).unwrap();
        let pod = Self { directory };
        let preamble = format!("#!/bin/sh\ncd {}\n", path.display());
        pod.install_program("virt-launcher", &format!("{preamble}{script}\n"));
        pod
    }

    /// The path of a file in the directory.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn install_program(&self, name: &str, content: &str) {
        let text = self.path("text");
        fs::write(&text, content).unwrap();
        install(&text, &self.path(name));
    }

    /// The trimmed content of a file in the directory; empty if there is no such file.
    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name))
            .unwrap_or_default()
            .trim()
            .to_owned()
    }

    /// A command that runs the monitor.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let monitor = self.path("virt-launcher-monitor");
        let mut command = if geteuid().is_root() {
            let mut command = Command::new("unshare");
            command
                .args(["--pid", "--fork", "--kill-child", "--mount-proc"])
                .arg(monitor);
            command
        } else {
            Command::new(monitor)
        };
        command.arg("--container-disk-dir").arg(self.path("disks"));
        command.arg("--kubevirt-share-dir").arg(self.path(""));
        command
            .arg("--ephemeral-disk-dir")
            .arg(self.path("ephemeral"));
        command
            .args(arguments)
            .stderr(Stdio::piped())
            .stdout(Stdio::piped());
        command
    }

    /// Runs the monitor until it ends.
    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Starts the monitor.
    pub(crate) fn start(&self, arguments: &[&str]) -> MonitorProcess {
        MonitorProcess {
            child: self.command(arguments).spawn().unwrap(),
        }
    }
}

/// Installs a program by another process. If this process wrote the file, a child that another test forks meanwhile may
/// hold it open, and executing it would fail with "text file busy".
fn install(from: &Path, to: &Path) {
    let mut command = Command::new("install");
    let status = command.args(["-m", "755"]).args([from, to]).status();
    assert!(status.unwrap().success(), "{}", to.display());
}

/// A running monitor.
pub(crate) struct MonitorProcess {
    pub(crate) child: Child,
}

impl MonitorProcess {
    /// The monitor's pid: as root the only child of `unshare`, otherwise the started process.
    pub(crate) fn monitor(&self) -> Pid {
        let started = Pid::from_raw(self.child.id().cast_signed()).unwrap();
        if !geteuid().is_root() {
            return started;
        }
        wait_for("unshare has a child", || {
            let children = fs::read_dir("/proc").unwrap().flatten();
            children
                .filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?))
                .find(|pid| parent(*pid) == Some(started))
        })
    }

    /// Sends a signal to the monitor.
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.monitor(), signal).unwrap();
    }

    /// Waits for the monitor's end; returns its exit code and standard error.
    pub(crate) fn end(self) -> (Option<i32>, String) {
        let output = self.child.wait_with_output().unwrap();
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        )
    }
}

fn parent(pid: Pid) -> Option<Pid> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    Pid::from_raw(
        stat.rsplit_once(')')?
            .1
            .split_whitespace()
            .nth(1)?
            .parse()
            .ok()?,
    )
}

/// Polls until `get` returns a value, for at most 20 s.
pub(crate) fn wait_for<T>(what: &str, mut get: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(20);
    while Instant::now() < deadline {
        if let Some(value) = get() {
            return value;
        }
        sleep(Duration::from_millis(10));
    }
    panic!("not within 20 s: {what}");
}
