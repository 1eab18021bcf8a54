//! A container image as a root directory, whose programs run without a container engine.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tests::binaries::{copy_program, static_virt_hook};

/// How long a sidecar may take to serve: a debug build compiles a module on a busy machine.
const READY_TIMEOUT: Duration = Duration::from_secs(120);
/// KubeVirt's directory for hook sockets, in an image.
const SOCKETS: &str = "var/run/kubevirt-hooks";

/// A root directory with its entrypoint and arguments.
#[derive(Debug)]
pub(crate) struct Image {
    root: tempfile::TempDir,
    pub(crate) entrypoint: Vec<String>,
    pub(crate) arguments: Vec<String>,
}

impl Image {
    pub(crate) fn scratch() -> Self {
        let root = tempfile::tempdir().unwrap();
        for directory in ["proc", "tmp", SOCKETS] {
            fs::create_dir_all(root.path().join(directory)).unwrap();
        }
        Self {
            root,
            entrypoint: Vec::new(),
            arguments: Vec::new(),
        }
    }

    /// The image with virt-hook as entrypoint.
    pub(crate) fn virt_hook() -> Self {
        let mut image = Self::scratch();
        image.add_file(&static_virt_hook().unwrap(), "/virt-hook");
        image.entrypoint = vec!["/virt-hook".to_owned()];
        image
    }

    /// The launcher's image, with virt-hook at the same path.
    pub(crate) fn launcher() -> Self {
        let image = Self::scratch();
        image.add_file(&static_virt_hook().unwrap(), "/usr/bin/virt-hook");
        image
    }

    pub(crate) fn path(&self, path_in_image: &str) -> PathBuf {
        self.root.path().join(path_in_image.trim_start_matches('/'))
    }

    /// Copies a file into the image.
    pub(crate) fn add_file(&self, file: &Path, path_in_image: &str) {
        let to = self.path(path_in_image);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        copy_program(file, &to).unwrap();
    }

    /// A command in the image, in its own namespaces.
    pub(crate) fn command(&self, words: &[String]) -> Command {
        let mut command = Command::new("unshare");
        command
            .args(["--mount", "--pid", "--fork", "--kill-child", "--mount-proc"])
            .arg(format!("--root={}", self.root.path().display()))
            .args(words)
            .env_clear()
            .env("CONTAINER_NAME", "hook-sidecar-0")
            .stdin(Stdio::null());
        command
    }

    /// Starts a sidecar, and checks that it creates a socket.
    pub(crate) fn assert_serves(&self, location: &str, arguments: &[String]) {
        let words = [&self.entrypoint[..], arguments].concat();
        let directory = match arguments.iter().position(|word| word == "--plugin") {
            Some(flag) => format!("var/run/kubevirt-plugin/{}", arguments[flag + 1]),
            None => SOCKETS.to_owned(),
        };
        fs::create_dir_all(self.path(&directory)).unwrap();
        let log = self.path("log");
        let mut command = self.command(&words);
        command.stderr(fs::File::create(&log).unwrap());
        let mut child = command.spawn().unwrap();
        let ready = wait_for_socket(&self.path(&directory), &mut child);
        let _ = child.kill();
        let _ = child.wait();
        let stderr = fs::read_to_string(&log).unwrap_or_default();
        assert!(ready, "{location}: {words:?} does not serve: {stderr}");
    }
}

fn wait_for_socket(directory: &Path, child: &mut Child) -> bool {
    let end = Instant::now() + READY_TIMEOUT;
    while Instant::now() < end && matches!(child.try_wait(), Ok(None)) {
        let names = fs::read_dir(directory).into_iter().flatten().flatten();
        let mut names = names.map(|entry| entry.file_name());
        if names.any(|name| name.to_string_lossy().ends_with(".sock")) {
            return true;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    false
}
