//! A pod's directories, and `virt-hook serve` running in it.
#![allow(dead_code, missing_docs, unreachable_pub, clippy::unwrap_used)]

pub mod stock_launcher_client;

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::io::AsyncReadExt;
use tokio::process::{Child, Command};

use crate::example_modules::EVERY_POINT_POLICY;

pub const XML: &str = "<domain type='kvm'>\n  <name>ns_vm</name>\n  <uuid>5a9f</uuid>\n  \
    <metadata>\n    <kubevirt xmlns=\"http://kubevirt.io\"><uid>u-1</uid></kubevirt>\n  \
    </metadata>\n  <os/>\n  <sysinfo type='smbios'/>\n</domain>\n";

/// A timeout that is longer than a debug build on a busy machine takes.
pub const TEST_TIMEOUT: Duration = Duration::from_secs(60);

pub fn vmi() -> String {
    vmi_that_does("nothing")
}

/// A VMI with the annotation `do`, which tells the example `hook_at_every_point` what to do.
pub fn vmi_that_does(action: &str) -> String {
    let annotations = json!({
        "smbios.vm.kubevirt.io/baseBoardManufacturer": "Radical Edward",
        "do": action,
    });
    let metadata =
        json!({"name": "vm", "namespace": "ns", "uid": "u-1", "annotations": annotations});
    json!({"metadata": metadata, "spec": {"domain": {}}}).to_string()
}

/// The directories of a pod. A sidecar has `hooks/hook-sidecar-0` as its hooks directory.
pub struct Pod(tempfile::TempDir);

impl Pod {
    pub fn new() -> Self {
        let pod = Self(tempfile::tempdir().unwrap());
        fs::create_dir_all(pod.directory()).unwrap();
        pod
    }

    pub fn root(&self) -> &Path {
        self.0.path()
    }

    pub fn hooks(&self) -> PathBuf {
        self.0.path().join("hooks")
    }

    pub fn directory(&self) -> PathBuf {
        self.hooks().join("hook-sidecar-0")
    }

    pub fn socket(&self) -> PathBuf {
        self.directory().join("virt-hook-hook-sidecar-0.sock")
    }

    /// The names of the files that a launcher sees: no directories.
    pub fn files(&self) -> Vec<String> {
        let all = self.everything().into_iter();
        all.filter(|name| !self.directory().join(name).is_dir())
            .collect()
    }

    /// The names of everything in the sidecar's hooks directory.
    pub fn everything(&self) -> Vec<String> {
        let entries = fs::read_dir(self.directory()).unwrap();
        entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect()
    }

    pub fn serve(&self, modules: &[&PathBuf], arguments: &[&str]) -> RunningServe {
        let command = Command::new(env!("CARGO_BIN_EXE_virt-hook"));
        self.serve_as(command, modules, arguments)
    }

    /// Serves with a command that runs `virt-hook` in the end.
    pub fn serve_as(
        &self,
        mut command: Command,
        modules: &[&PathBuf],
        arguments: &[&str],
    ) -> RunningServe {
        command
            .arg("serve")
            .arg("--hooks-dir")
            .arg(self.directory());
        for module in modules {
            command.arg("--module").arg(module);
        }
        let child = command
            .args(arguments)
            .env("CONTAINER_NAME", "hook-sidecar-0")
            .env("VIRT_HOOK_POLICY", EVERY_POINT_POLICY)
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn();
        RunningServe {
            child: child.unwrap(),
            directory: self.directory(),
        }
    }
}

/// A running `virt-hook serve`.
pub struct RunningServe {
    pub child: Child,
    directory: PathBuf,
}

impl RunningServe {
    /// Waits until a launcher could dial the socket.
    pub async fn wait_until_ready(&mut self) {
        let answers = |path: &Path| {
            path.extension().is_some_and(|deadline| deadline == "sock")
                && UnixStream::connect(path).is_ok()
        };
        self.wait_for_file("socket", answers).await;
    }

    /// Waits until the program has created its hidden directory, in which it gets ready.
    pub async fn wait_until_getting_ready(&mut self) {
        self.wait_for_file("hidden directory", Path::is_dir).await;
    }

    async fn wait_for_file(&mut self, what: &str, is_wanted: fn(&Path) -> bool) {
        let deadline = Instant::now() + TEST_TIMEOUT;
        loop {
            let entries = fs::read_dir(&self.directory).unwrap();
            if entries.flatten().any(|entry| is_wanted(&entry.path())) {
                return;
            }
            if let Some(status) = self.child.try_wait().unwrap() {
                panic!("{status} instead of a {what}: {}", self.read_stderr().await);
            }
            assert!(Instant::now() < deadline, "no {what}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id().unwrap()).unwrap()
    }

    /// Reads and drops standard error from now on, so that the pipe never fills.
    pub fn drop_stderr(&mut self) {
        let mut stderr = self.child.stderr.take().unwrap();
        tokio::spawn(async move { tokio::io::copy(&mut stderr, &mut tokio::io::sink()).await });
    }

    /// Sends SIGTERM.
    pub fn terminate(&self) {
        let pid = self.pid();
        let pid = rustix::process::Pid::from_raw(pid).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    }

    pub async fn kill(&mut self) {
        self.child.kill().await.unwrap();
    }

    async fn read_stderr(&mut self) -> String {
        let mut text = String::new();
        let mut stderr = self.child.stderr.take().unwrap();
        stderr.read_to_string(&mut text).await.unwrap();
        text
    }

    /// Waits for the exit with this code of a program whose standard error is dropped.
    pub async fn wait_for_end(mut self, code: i32) {
        let status = tokio::time::timeout(TEST_TIMEOUT, self.child.wait()).await;
        assert_eq!(status.unwrap().unwrap().code(), Some(code));
    }

    /// Waits for the exit with this code, and returns standard error.
    pub async fn wait_for_exit(mut self, code: i32) -> String {
        let stderr = tokio::time::timeout(TEST_TIMEOUT, self.read_stderr())
            .await
            .unwrap();
        let status = self.child.wait().await.unwrap();
        assert_eq!(status.code(), Some(code), "{stderr}");
        stderr
    }
}
