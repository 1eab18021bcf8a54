//! Builds Dockerfiles of the documentation into a directory, without a container engine, and starts sidecars in it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tests::binaries::static_virt_hook;

use crate::doc_session::DocSession;
use crate::sidecar_annotations::Sidecar;

/// How long a sidecar may take to serve: a debug build compiles a module on a busy machine.
const READY_TIMEOUT: Duration = Duration::from_secs(120);
/// The names of the image with virt-hook as entrypoint, which docs/serve.md builds.
const VIRT_HOOK_IMAGES: [&str; 2] = ["IMAGE", "registry.corp.example/virt-hook:0.1"];
/// The name of the launcher's image, which `make image` builds. Here it only has virt-hook, which Dockerfiles run.
const LAUNCHER_IMAGE: &str = "registry.example/virt-launcher:v1.9.0-wasm";
/// KubeVirt's directory for hook sockets, in an image.
const SOCKETS: &str = "var/run/kubevirt-hooks";

/// A root directory with its entrypoint and arguments.
#[derive(Debug)]
pub(crate) struct Image {
    root: tempfile::TempDir,
    entrypoint: Vec<String>,
    arguments: Vec<String>,
}

impl Image {
    fn scratch() -> Self {
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
    fn virt_hook() -> Self {
        let mut image = Self::scratch();
        copy(&static_virt_hook().unwrap(), &image.path("/virt-hook"));
        image.entrypoint = vec!["/virt-hook".to_owned()];
        image
    }

    /// The launcher's image, with virt-hook at the same path.
    fn launcher() -> Self {
        let image = Self::scratch();
        copy(
            &static_virt_hook().unwrap(),
            &image.path("/usr/bin/virt-hook"),
        );
        image
    }

    fn path(&self, path_in_image: &str) -> PathBuf {
        self.root.path().join(path_in_image.trim_start_matches('/'))
    }

    /// A command in the image, in its own namespaces.
    fn command(&self, words: &[String]) -> Command {
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
    fn assert_serves(&self, location: &str, arguments: &[String]) {
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

/// Copies a program with `cp`. If this process wrote it, a child that another test forks at that time would also have
/// it open for writing, and it could not be executed (`ETXTBSY`).
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to.parent().unwrap()).unwrap();
    let copied = Command::new("cp").args([from, to]).status().unwrap();
    assert!(copied.success(), "{} is not copied", from.display());
}

/// Builds an image. If it has an entrypoint, starts it.
pub(crate) fn build(location: &str, dockerfile: &str, session: &DocSession) -> Image {
    let unfolded = dockerfile.replace("\\\n", " ");
    let lines = unfolded.lines().map(str::trim);
    let mut lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    let (mut image, has_shell) = from(location, lines.next().unwrap_or_default());
    for line in lines {
        let (instruction, rest) = line.split_once(' ').unwrap_or((line, ""));
        match instruction {
            "COPY" => copy_in(location, rest, &image, session),
            "RUN" => run(location, rest, &image, has_shell),
            "ENTRYPOINT" => image.entrypoint = words(location, rest),
            "CMD" => image.arguments = words(location, rest),
            other => panic!("{location}: {other} is no instruction that this test knows"),
        }
    }
    if !image.arguments.is_empty() {
        image.assert_serves(location, &image.arguments);
    }
    image
}

/// The base image, and whether it has a shell and program directories.
fn from(location: &str, line: &str) -> (Image, bool) {
    match line.strip_prefix("FROM ") {
        Some("scratch") => (Image::scratch(), false),
        Some(name) if VIRT_HOOK_IMAGES.contains(&name) => (Image::virt_hook(), false),
        Some(LAUNCHER_IMAGE) => (Image::launcher(), true),
        _ => panic!("{location}: {line:?} names no image that there is"),
    }
}

/// The exec form of an instruction.
fn words(location: &str, text: &str) -> Vec<String> {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{location}: {text}: {error}"))
}

fn copy_in(location: &str, rest: &str, image: &Image, session: &DocSession) {
    let mut words: Vec<_> = rest.split_whitespace().collect();
    let to = words.pop().unwrap_or_default();
    for word in words {
        let name = word.rsplit('/').next().unwrap();
        let to = match to.ends_with('/') {
            true => format!("{to}{name}"),
            false => to.to_owned(),
        };
        copy(&copy_source(location, word, session), &image.path(&to));
    }
}

/// Finds a `COPY` source: a file of the session, or a program of this project.
fn copy_source(location: &str, word: &str, session: &DocSession) -> PathBuf {
    let file = session.current_dir.join(word);
    match word {
        _ if file.is_file() => file,
        "virt-hook" => static_virt_hook().unwrap(),
        _ => session
            .module(word)
            .unwrap_or_else(|| panic!("{location}: there is no {word} to copy")),
    }
}

impl DocSession {
    /// Finds a module that an earlier block built.
    fn module(&self, name: &str) -> Option<PathBuf> {
        let directories = ["build", "target/wasm32-wasip2/hook"];
        let mut candidates = directories
            .iter()
            .map(|directory| self.current_dir.join(directory).join(name));
        candidates.find(|path| path.is_file())
    }
}

fn run(location: &str, rest: &str, image: &Image, has_shell: bool) {
    let mut words = match rest.starts_with('[') {
        true => words(location, rest),
        false => rest.split_whitespace().map(str::to_owned).collect(),
    };
    match words[0].as_str() {
        "/virt-hook" => {}
        "virt-hook" if has_shell => words[0] = "/usr/bin/virt-hook".to_owned(),
        other => panic!("{location}: this image has no {other}, or not by that name"),
    }
    assert!(
        image.path(&words[0]).is_file(),
        "{location}: {} is not in it",
        words[0]
    );
    let output = image.command(&words).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{location}: {words:?}: {stderr}");
}

/// Starts a sidecar of an annotation, with its volumes.
pub(crate) fn start(location: &str, sidecar: &Sidecar, session: &mut DocSession) {
    let Some(arguments) = &sidecar.args else {
        let image = session.image.take();
        let image = image.unwrap_or_else(|| panic!("{location}: no image was built before"));
        let default = image.arguments.clone();
        return image.assert_serves(location, &default);
    };
    assert!(
        VIRT_HOOK_IMAGES.contains(&&*sidecar.image),
        "{location}: {}",
        sidecar.image
    );
    let image = Image::virt_hook();
    if let Some(map) = &sidecar.config_map {
        let keys = session.config_maps.get(&map.name);
        let file = keys.and_then(|keys| keys.get(&map.key));
        let file = file.unwrap_or_else(|| panic!("{location}: no key {} in {}", map.key, map.name));
        copy(file, &image.path(&map.hook_path));
    }
    if let Some(claim) = &sidecar.pvc {
        for entry in fs::read_dir(&session.current_dir).unwrap() {
            let path = entry.unwrap().path();
            if path
                .extension()
                .is_some_and(|extension| extension == "wasm")
            {
                let name = path.file_name().unwrap().to_str().unwrap();
                copy(&path, &image.path(&format!("{}/{name}", claim.volume_path)));
            }
        }
    }
    image.assert_serves(location, arguments);
}
