//! A page, told in a directory of its own. Files and directories that a block leaves are there for the next, and
//! so is the directory that it changed to.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tests::binaries::{binary, target_dir, workspace};
use tests::hooks;

use crate::image::{self, Image};
use crate::output;
use crate::page::{Block, page, source};
use crate::{manifest, not_run, records};

/// What a page calls them that shows what to do with them.
const RECORDS: &str = "records/";

/// Where a page's commands are run.
#[derive(Debug)]
pub(crate) struct Story {
    path: String,
    place: tempfile::TempDir,
    /// Where the reader is now.
    pub(crate) here: PathBuf,
    /// What the last command printed.
    printed: String,
    /// ConfigMaps that the reader made: their keys, and the files in them.
    pub(crate) config_maps: BTreeMap<String, BTreeMap<String, PathBuf>>,
    pub(crate) image: Option<Image>,
}

pub(crate) fn tell(path: &str) {
    let mut story = Story::begin(path);
    let mut told = 0;
    for block in page(path).blocks {
        let at = format!("{path}:{}", block.line);
        story.go_on(&at, &block);
        told += usize::from(block.is_run());
    }
    assert!(told > 0, "{path} runs nothing");
}

impl Story {
    fn begin(path: &str) -> Self {
        let place = tempfile::tempdir().unwrap();
        let mut here = place.path().to_owned();
        match path.strip_prefix("examples-hooks/") {
            None => {
                lay_out_modules(&here);
                if source(path).contains(RECORDS) {
                    records::keep(&here.join(RECORDS));
                }
            }
            Some(page) => {
                let example = workspace().join("examples-hooks").join(page);
                let example = example.parent().unwrap();
                if example.join("Cargo.toml").is_file() {
                    here = workspace().to_owned();
                } else {
                    here = here.join("example");
                    copy(example, &here);
                }
            }
        }
        Self {
            path: path.to_owned(),
            place,
            here,
            printed: String::new(),
            config_maps: BTreeMap::new(),
            image: None,
        }
    }

    fn go_on(&mut self, at: &str, block: &Block) {
        match (block.language.as_str(), block.role.as_str()) {
            ("sh", role @ ("" | "fails")) => self.run(at, &block.text, role.is_empty()),
            ("sh", role) => not_run::hold(at, role, &block.text, self),
            (_, "output") => assert!(
                output::agrees(&block.text, &self.printed),
                "{at}: it prints\n{}",
                self.printed
            ),
            ("dockerfile", _) => self.image = Some(image::build(at, &block.text, self)),
            ("yaml", "") => {
                for sidecar in manifest::sidecars(&block.text) {
                    image::start(at, &sidecar, self);
                }
            }
            (_, name) if name.contains('.') && block.language != "rust" => self.write(at, block),
            _ => {}
        }
    }

    fn write(&self, at: &str, block: &Block) {
        let file = self.here.join(&block.role);
        // An example's own files are what its page shows of them, or are tried by its own tests.
        if !self.here.starts_with(self.place.path()) {
            return;
        }
        assert!(file.starts_with(self.place.path()), "{at}: {}", block.role);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, &block.text).unwrap();
    }

    fn run(&mut self, at: &str, script: &str, succeeds: bool) {
        let noted = self.place.path().join(".here");
        let after = format!("{script}\npwd > {}\n", noted.display());
        let output = self.shell(&after);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        let status = output.status;
        assert_eq!(
            status.success(),
            succeeds,
            "{at}: {status}\n{script}{out}{err}"
        );
        // What a build says of itself on the way is nobody's result; why there is none is.
        self.printed = if succeeds { out } else { out + &err };
        if let Ok(now) = fs::read_to_string(&noted) {
            self.here = PathBuf::from(now.trim_end());
        }
        self.share_target();
    }

    /// The usual place of what a new project builds leads to where it is built.
    fn share_target(&self) {
        let target = self.here.join("target");
        let own = self.here.starts_with(self.place.path());
        if own && self.here.join("Cargo.toml").is_file() && !target.exists() {
            fs::create_dir_all(self.target()).unwrap();
            std::os::unix::fs::symlink(self.target(), target).unwrap();
        }
    }

    /// What a reader has in their shell after following the guide's first section.
    fn shell(&self, script: &str) -> Output {
        let program = binary("virt-hook").unwrap();
        let programs = program.parent().unwrap().display();
        let path = std::env::var("PATH").unwrap();
        Command::new("sh")
            .args(["-eu", "-c", script])
            .current_dir(&self.here)
            .env("PATH", format!("{programs}:{path}"))
            .env("PYTHON", target_dir().join("python"))
            .env("CARGO_TARGET_DIR", self.target())
            .env("NO_COLOR", "1")
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }

    /// Shared by all new projects of all tests, so that the SDK's dependencies are compiled once; an example's
    /// module is where all tests have it from.
    fn target(&self) -> PathBuf {
        match self.path.starts_with("examples-hooks/") {
            true => target_dir().join("hooks"),
            false => target_dir().join("new-hook"),
        }
    }
}

/// The modules of the examples, by the names of their directories.
fn lay_out_modules(place: &Path) {
    for example in hooks::examples().unwrap() {
        let name = example.directory.file_name().unwrap().to_str().unwrap();
        let module = hooks::example(&example.package).unwrap();
        fs::copy(module, place.join(format!("{name}.wasm"))).unwrap();
    }
}

/// With what its links point to, since one is the SDK.
fn copy(example: &Path, to: &Path) {
    let mut copy = Command::new("cp");
    let copied = copy.args(["-aL"]).args([example, to]).status().unwrap();
    assert!(copied.success(), "{} is not copied", example.display());
}
