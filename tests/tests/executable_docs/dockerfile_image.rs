//! Builds Dockerfiles of the documentation into a directory, and starts sidecars in it.

use std::fs;
use std::path::PathBuf;

use tests::binaries::static_virt_hook;

use crate::page_shell_session::PageSession;
use crate::sidecars_on_pages::Sidecar;
use crate::unpacked_image::Image;

/// The names of the image with virt-hook as entrypoint, which docs/serve.md builds.
const VIRT_HOOK_IMAGES: [&str; 2] = ["IMAGE", "registry.corp.example/virt-hook:0.1"];
/// The name of the launcher's image, which `make image` builds. Here it only has virt-hook, which Dockerfiles run.
const LAUNCHER_IMAGE: &str = "registry.example/virt-launcher:v1.9.0-wasm";

/// Builds an image. If it has an entrypoint, starts it.
pub(crate) fn build(location: &str, dockerfile: &str, session: &PageSession) -> Image {
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

fn copy_in(location: &str, rest: &str, image: &Image, session: &PageSession) {
    let mut words: Vec<_> = rest.split_whitespace().collect();
    let to = words.pop().unwrap_or_default();
    for word in words {
        let name = word.rsplit('/').next().unwrap();
        let to = match to.ends_with('/') {
            true => format!("{to}{name}"),
            false => to.to_owned(),
        };
        image.add_file(&copy_source(location, word, session), &to);
    }
}

/// Finds a `COPY` source: a file of the session, or a program of this project.
fn copy_source(location: &str, word: &str, session: &PageSession) -> PathBuf {
    let file = session.current_dir.join(word);
    match word {
        _ if file.is_file() => file,
        "virt-hook" => static_virt_hook().unwrap(),
        _ => session
            .module(word)
            .unwrap_or_else(|| panic!("{location}: there is no {word} to copy")),
    }
}

impl PageSession {
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
pub(crate) fn start(location: &str, sidecar: &Sidecar, session: &mut PageSession) {
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
        image.add_file(file, &map.hook_path);
    }
    if let Some(claim) = &sidecar.pvc {
        for entry in fs::read_dir(&session.current_dir).unwrap() {
            let path = entry.unwrap().path();
            if path
                .extension()
                .is_some_and(|extension| extension == "wasm")
            {
                let name = path.file_name().unwrap().to_str().unwrap();
                image.add_file(&path, &format!("{}/{name}", claim.volume_path));
            }
        }
    }
    image.assert_serves(location, arguments);
}
