//! Builds Dockerfiles of the documentation into a directory, without a container engine, and starts sidecars in it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tests::binaries::static_virt_hook;

use crate::doc_session::DocSession;
use crate::yaml_blocks::Sidecar;

/// Long, since a debug build compiles a module on a busy machine.
const READY: Duration = Duration::from_secs(120);
/// An image with virt-hook as its entrypoint, as docs/serve.md makes it.
const OURS: [&str; 2] = ["IMAGE", "registry.corp.example/virt-hook:0.1"];
/// The launcher's image, as `make image` makes it: here only with virt-hook, which Dockerfiles run.
const LAUNCHER: &str = "registry.example/virt-launcher:v1.9.0-wasm";
/// KubeVirt's directory for hook sockets.
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

    /// The image that the pages call `IMAGE`.
    fn ours() -> Self {
        let mut image = Self::scratch();
        copy(&static_virt_hook().unwrap(), &image.path("/virt-hook"));
        image.entrypoint = vec!["/virt-hook".to_owned()];
        image
    }

    /// An image with virt-hook where the launcher's image has it.
    fn launcher() -> Self {
        let image = Self::scratch();
        copy(
            &static_virt_hook().unwrap(),
            &image.path("/usr/bin/virt-hook"),
        );
        image
    }

    fn path(&self, inside: &str) -> PathBuf {
        self.root.path().join(inside.trim_start_matches('/'))
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

    /// Starts a sidecar and waits for its socket.
    fn serves(&self, at: &str, arguments: &[String]) {
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
        assert!(ready, "{at}: {words:?} does not serve: {stderr}");
    }
}

fn wait_for_socket(directory: &Path, child: &mut Child) -> bool {
    let end = Instant::now() + READY;
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

/// Runs `cp`: a file that this process has open for writing is also open in any child that another test forks
/// meanwhile, and cannot be executed then (`ETXTBSY`).
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to.parent().unwrap()).unwrap();
    let copied = Command::new("cp").args([from, to]).status().unwrap();
    assert!(copied.success(), "{} is not copied", from.display());
}

/// Builds an image. If it has an entrypoint, starts it.
pub(crate) fn build(at: &str, dockerfile: &str, session: &DocSession) -> Image {
    let joined = dockerfile.replace("\\\n", " ");
    let lines = joined.lines().map(str::trim);
    let mut lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    let (mut image, has_shell) = from(at, lines.next().unwrap_or_default());
    for line in lines {
        let (instruction, rest) = line.split_once(' ').unwrap_or((line, ""));
        match instruction {
            "COPY" => copy_in(at, rest, &image, session),
            "RUN" => run(at, rest, &image, has_shell),
            "ENTRYPOINT" => image.entrypoint = words(at, rest),
            "CMD" => image.arguments = words(at, rest),
            other => panic!("{at}: {other} is no instruction that this test knows"),
        }
    }
    if !image.arguments.is_empty() {
        image.serves(at, &image.arguments);
    }
    image
}

/// The base image, and whether it has a shell and program directories.
fn from(at: &str, line: &str) -> (Image, bool) {
    match line.strip_prefix("FROM ") {
        Some("scratch") => (Image::scratch(), false),
        Some(name) if OURS.contains(&name) => (Image::ours(), false),
        Some(LAUNCHER) => (Image::launcher(), true),
        _ => panic!("{at}: {line:?} names no image that there is"),
    }
}

/// The exec form of an instruction.
fn words(at: &str, text: &str) -> Vec<String> {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{at}: {text}: {error}"))
}

fn copy_in(at: &str, rest: &str, image: &Image, session: &DocSession) {
    let mut words: Vec<_> = rest.split_whitespace().collect();
    let to = words.pop().unwrap_or_default();
    for word in words {
        let name = word.rsplit('/').next().unwrap();
        let to = match to.ends_with('/') {
            true => format!("{to}{name}"),
            false => to.to_owned(),
        };
        copy(&built(at, word, session), &image.path(&to));
    }
}

/// Finds a `COPY` source: a file of the session, or a program of this project.
fn built(at: &str, word: &str, session: &DocSession) -> PathBuf {
    let own = session.current_dir.join(word);
    match word {
        _ if own.is_file() => own,
        "virt-hook" => static_virt_hook().unwrap(),
        _ => session
            .module(word)
            .unwrap_or_else(|| panic!("{at}: there is no {word} to copy")),
    }
}

impl DocSession {
    /// Finds a module that an earlier block built.
    fn module(&self, name: &str) -> Option<PathBuf> {
        let below = ["build", "target/wasm32-wasip2/hook"];
        let mut candidates = below
            .iter()
            .map(|directory| self.current_dir.join(directory).join(name));
        candidates.find(|path| path.is_file())
    }
}

fn run(at: &str, rest: &str, image: &Image, has_shell: bool) {
    let mut words = match rest.starts_with('[') {
        true => words(at, rest),
        false => rest.split_whitespace().map(str::to_owned).collect(),
    };
    match words[0].as_str() {
        "/virt-hook" => {}
        "virt-hook" if has_shell => words[0] = "/usr/bin/virt-hook".to_owned(),
        other => panic!("{at}: this image has no {other}, or not by that name"),
    }
    assert!(
        image.path(&words[0]).is_file(),
        "{at}: {} is not in it",
        words[0]
    );
    let output = image.command(&words).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{at}: {words:?}: {stderr}");
}

/// Starts a sidecar of an annotation, with the volumes that it names.
pub(crate) fn start(at: &str, sidecar: &Sidecar, session: &mut DocSession) {
    let Some(arguments) = &sidecar.args else {
        let image = session.image.take();
        let image = image.unwrap_or_else(|| panic!("{at}: no image was built before"));
        let default = image.arguments.clone();
        return image.serves(at, &default);
    };
    assert!(OURS.contains(&&*sidecar.image), "{at}: {}", sidecar.image);
    let image = Image::ours();
    if let Some(map) = &sidecar.config_map {
        let keys = session.config_maps.get(&map.name);
        let file = keys.and_then(|keys| keys.get(&map.key));
        let file = file.unwrap_or_else(|| panic!("{at}: no key {} in {}", map.key, map.name));
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
    image.serves(at, arguments);
}
