//! One page, run in its own directory. Like in a shell session, the files that a block leaves and the directory that
//! it changes to are kept for the next block.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tests::binaries::{binary, target_dir, workspace};
use tests::build_and_install_hooks as hooks;

use crate::command_output;
use crate::dockerfile_image::{self, Image};
use crate::page_blocks::{Block, is_of_workspace, page, source};
use crate::{sample_record, static_block_checks, yaml_blocks};

/// The directory of records, as the pages name it.
const RECORDS: &str = "records/";

/// The shell session of one page.
#[derive(Debug)]
pub(crate) struct DocSession {
    path: String,
    directory: tempfile::TempDir,
    /// The current directory.
    pub(crate) current_dir: PathBuf,
    /// The output of the last command.
    last_output: String,
    /// ConfigMaps created so far: their keys and files.
    pub(crate) config_maps: BTreeMap<String, BTreeMap<String, PathBuf>>,
    /// The last VirtualMachine that the page shows with sidecars.
    pub(crate) vm: Option<String>,
    /// The registry secret created last.
    pub(crate) pull_secret: Option<String>,
    pub(crate) image: Option<Image>,
}

pub(crate) fn run_page(path: &str) {
    let mut session = DocSession::begin(path);
    let mut tested = 0;
    for block in page(path).blocks {
        let at = format!("{path}:{}", block.line);
        session.run_block(&at, &block);
        tested += usize::from(block.is_run());
    }
    assert!(tested > 0, "{path} runs nothing");
}

/// Checks the commands of a page that runs nothing.
pub(crate) fn check_page(path: &str) {
    let directory = tempfile::tempdir().unwrap();
    let current_dir = directory.path().to_owned();
    let mut session = DocSession::new(path, directory, current_dir);
    for block in page(path).blocks {
        let at = format!("{path}:{}", block.line);
        if block.language == "sh" {
            static_block_checks::check_block(&at, &block.role, &block.text, &mut session);
        }
    }
}

impl DocSession {
    fn new(path: &str, directory: tempfile::TempDir, current_dir: PathBuf) -> Self {
        Self {
            path: path.to_owned(),
            directory,
            current_dir,
            last_output: String::new(),
            config_maps: BTreeMap::new(),
            vm: None,
            pull_secret: None,
            image: None,
        }
    }

    fn begin(path: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut current_dir = directory.path().to_owned();
        match path.strip_prefix("examples-hooks/") {
            None => {
                copy_example_modules(&current_dir);
                if source(path).contains(RECORDS) {
                    sample_record::write(&current_dir.join(RECORDS));
                }
            }
            Some(page) => {
                let example = workspace().join("examples-hooks").join(page);
                let example = example.parent().unwrap();
                if example.join("Cargo.toml").is_file() {
                    current_dir = workspace().to_owned();
                } else {
                    current_dir = current_dir.join("example");
                    copy(example, &current_dir);
                }
            }
        }
        Self::new(path, directory, current_dir)
    }

    fn run_block(&mut self, at: &str, block: &Block) {
        match (block.language.as_str(), block.role.as_str()) {
            ("sh", role @ ("" | "fails")) => self.run(at, &block.text, role.is_empty()),
            ("sh", role) => static_block_checks::check_block(at, role, &block.text, self),
            (_, "output") => assert!(
                command_output::matches(&block.text, &self.last_output),
                "{at}: it prints\n{}",
                self.last_output
            ),
            ("dockerfile", _) => self.image = Some(dockerfile_image::build(at, &block.text, self)),
            ("yaml", "") => {
                let sidecars = yaml_blocks::sidecars(&block.text);
                if !sidecars.is_empty() && block.text.contains("kind: VirtualMachine\n") {
                    self.vm = Some(block.text.clone());
                }
                for sidecar in sidecars {
                    dockerfile_image::start(at, &sidecar, self);
                }
            }
            (language, name) if name.contains('.') && !is_of_workspace(language, name) => {
                self.write(at, block)
            }
            _ => {}
        }
    }

    fn write(&self, at: &str, block: &Block) {
        let file = self.current_dir.join(&block.role);
        // A page in the workspace shows existing files of its example, which must not be overwritten.
        if !self.current_dir.starts_with(self.directory.path()) {
            return;
        }
        assert!(
            file.starts_with(self.directory.path()),
            "{at}: {}",
            block.role
        );
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, &block.text).unwrap();
    }

    fn run(&mut self, at: &str, script: &str, succeeds: bool) {
        let cwd_file = self.directory.path().join(".cwd");
        let after = format!("{script}\npwd > {}\n", cwd_file.display());
        let output = self.shell(&after);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        let status = output.status;
        assert_eq!(
            status.success(),
            succeeds,
            "{at}: {status}\n{script}{out}{err}"
        );
        // The standard error of a successful build is progress, not output.
        self.last_output = if succeeds { out } else { out + &err };
        if let Ok(now) = fs::read_to_string(&cwd_file) {
            self.current_dir = PathBuf::from(now.trim_end());
        }
        self.share_target();
    }

    /// Links `target` of a new project to the shared target directory.
    fn share_target(&self) {
        let target = self.current_dir.join("target");
        let own = self.current_dir.starts_with(self.directory.path());
        if own && self.current_dir.join("Cargo.toml").is_file() && !target.exists() {
            fs::create_dir_all(self.target()).unwrap();
            std::os::unix::fs::symlink(self.target(), target).unwrap();
        }
    }

    /// Runs a script in the environment of a reader who has followed the guide's first section.
    fn shell(&self, script: &str) -> Output {
        let program = binary("virt-hook").unwrap();
        let programs = program.parent().unwrap().display();
        let path = std::env::var("PATH").unwrap();
        Command::new("sh")
            .args(["-eu", "-c", script])
            .current_dir(&self.current_dir)
            .env("PATH", format!("{programs}:{path}"))
            .env("HOOK_VENV", target_dir().join("python"))
            // Without Go, only commands that call it fail.
            .envs(hooks::go_environment().into_iter().flatten())
            .env("CARGO_TARGET_DIR", self.target())
            .env("NO_COLOR", "1")
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }

    /// The target directory. Shared by all new projects, so that the SDK's dependencies are compiled once; for examples
    /// it is the one of all tests.
    fn target(&self) -> PathBuf {
        match self.path.starts_with("examples-hooks/") {
            true => target_dir().join("hooks"),
            false => target_dir().join("new-hook"),
        }
    }
}

/// Copies the modules of the examples, named after their directories.
fn copy_example_modules(directory: &Path) {
    for example in hooks::examples().unwrap() {
        let name = example.directory.file_name().unwrap().to_str().unwrap();
        let module = hooks::example(&example.package).unwrap();
        fs::copy(module, directory.join(format!("{name}.wasm"))).unwrap();
    }
}

/// Follows links, since one of them is the SDK.
fn copy(example: &Path, to: &Path) {
    let mut copy = Command::new("cp");
    let copied = copy.args(["-aL"]).args([example, to]).status().unwrap();
    assert!(copied.success(), "{} is not copied", example.display());
}
