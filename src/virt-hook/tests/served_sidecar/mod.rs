//! A pod's directories, the program that serves in it, and the modules it serves.
#![allow(dead_code, missing_docs, unreachable_pub, clippy::unwrap_used)]

pub mod stock_launcher_client;

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::io::AsyncReadExt;
use tokio::process::{Child, Command};

pub const XML: &str = "<domain type='kvm'>\n  <name>ns_vm</name>\n  <uuid>5a9f</uuid>\n  \
    <metadata>\n    <kubevirt xmlns=\"http://kubevirt.io\"><uid>u-1</uid></kubevirt>\n  \
    </metadata>\n  <os/>\n</domain>\n";

/// What [`every_point`] wants of the operator.
pub const POLICY: &str = "{allow: {dangerous: ['/domain/qemu:commandline/**']}}";

/// More than a debug build on a busy machine takes.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub fn vmi() -> String {
    vmi_that_does("nothing")
}

/// `do` is what the `every_point` example heeds.
pub fn vmi_that_does(what: &str) -> String {
    let annotations = json!({
        "smbios.vm.kubevirt.io/baseBoardManufacturer": "Radical Edward",
        "do": what,
    });
    let metadata =
        json!({"name": "vm", "namespace": "ns", "uid": "u-1", "annotations": annotations});
    json!({"metadata": metadata, "spec": {"domain": {}}}).to_string()
}

pub fn example(package: &str) -> PathBuf {
    tests::build_and_install_hooks::example(package).unwrap()
}

/// The SDK's hook at every hook point.
pub fn every_point() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT
        .get_or_init(|| {
            let target = tests::binaries::target_dir().join("hooks");
            let wanted = [
                "--profile",
                "hook",
                "--target",
                "wasm32-wasip2",
                "-p",
                "hooks-sdk",
            ];
            let built = std::process::Command::new(env!("CARGO"))
                .args([
                    "build",
                    "--quiet",
                    "--example",
                    "every_point",
                    "--target-dir",
                ])
                .arg(&target)
                .args(wanted)
                .current_dir(tests::binaries::workspace())
                .status();
            assert!(built.unwrap().success());
            target.join("wasm32-wasip2/hook/examples/every_point.wasm")
        })
        .clone()
}

/// `hooks/hook-sidecar-0` is what a sidecar has as its hooks directory.
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

    /// What a launcher sees: all but directories.
    pub fn files(&self) -> Vec<String> {
        let all = self.everything().into_iter();
        all.filter(|name| !self.directory().join(name).is_dir())
            .collect()
    }

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

    /// Through another program that ends in `virt-hook`.
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
            .env("VIRT_HOOK_POLICY", POLICY)
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn();
        RunningServe {
            child: child.unwrap(),
            directory: self.directory(),
        }
    }
}

/// The program.
pub struct RunningServe {
    pub child: Child,
    directory: PathBuf,
}

impl RunningServe {
    /// Until a launcher could dial it.
    pub async fn ready(&mut self) {
        let answers = |path: &Path| {
            path.extension().is_some_and(|end| end == "sock") && UnixStream::connect(path).is_ok()
        };
        self.until("socket", answers).await;
    }

    /// Until it has begun to get ready.
    pub async fn hidden(&mut self) {
        self.until("hidden directory", Path::is_dir).await;
    }

    async fn until(&mut self, what: &str, is_it: fn(&Path) -> bool) {
        let end = Instant::now() + PATIENCE;
        loop {
            let entries = fs::read_dir(&self.directory).unwrap();
            if entries.flatten().any(|entry| is_it(&entry.path())) {
                return;
            }
            if let Some(status) = self.child.try_wait().unwrap() {
                panic!("{status} instead of a {what}: {}", self.read_stderr().await);
            }
            assert!(Instant::now() < end, "no {what}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// SIGTERM.
    pub fn signal(&self) {
        let pid = i32::try_from(self.child.id().unwrap()).unwrap();
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

    /// Waits for the exit and returns stderr.
    pub async fn ended(mut self, code: i32) -> String {
        let stderr = tokio::time::timeout(PATIENCE, self.read_stderr())
            .await
            .unwrap();
        let status = self.child.wait().await.unwrap();
        assert_eq!(status.code(), Some(code), "{stderr}");
        stderr
    }
}
