//! The session of one page in a directory. As in a shell session, the next block finds the files and the current
//! directory that a block leaves.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tests::binaries::{binary, target_dir, workspace};
use tests::build_and_install_hooks as hooks;

use crate::page_blocks::{Block, source};
use crate::sample_hook_record;
use crate::unpacked_image::Image;

/// The directory of records that pages use.
const RECORDS_DIRECTORY: &str = "records/";

/// The shell session of one page.
#[derive(Debug)]
pub(crate) struct PageSession {
    path: String,
    directory: tempfile::TempDir,
    /// The current directory.
    pub(crate) current_dir: PathBuf,
    /// The output of the last command.
    pub(crate) last_output: String,
    /// ConfigMaps created so far: their keys and files.
    pub(crate) config_maps: BTreeMap<String, BTreeMap<String, PathBuf>>,
    /// The last VirtualMachine that the page shows with sidecars.
    pub(crate) vm: Option<String>,
    /// The registry secret created last.
    pub(crate) pull_secret: Option<String>,
    /// The image that the last Dockerfile built.
    pub(crate) image: Option<Image>,
}

impl PageSession {
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

    /// A session in an empty directory.
    pub(crate) fn without_files(path: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let current_dir = directory.path().to_owned();
        Self::new(path, directory, current_dir)
    }

    /// A session with the files that the commands of the page use.
    pub(crate) fn start(path: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut current_dir = directory.path().to_owned();
        match path.strip_prefix("examples-hooks/") {
            None => {
                copy_example_modules(&current_dir);
                if source(path).contains(RECORDS_DIRECTORY) {
                    sample_hook_record::write(&current_dir.join(RECORDS_DIRECTORY));
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

    /// Writes a block to the file of its role.
    pub(crate) fn write(&self, location: &str, block: &Block) {
        let file = self.current_dir.join(&block.role);
        // A page in the workspace shows existing files of its example, which must not be overwritten.
        if !self.current_dir.starts_with(self.directory.path()) {
            return;
        }
        assert!(
            file.starts_with(self.directory.path()),
            "{location}: {}",
            block.role
        );
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, &block.text).unwrap();
    }

    /// Runs a script, which must succeed or fail.
    pub(crate) fn run(&mut self, location: &str, script: &str, succeeds: bool) {
        let cwd_file = self.directory.path().join(".cwd");
        let script_with_pwd = format!("{script}\npwd > {}\n", cwd_file.display());
        let output = self.shell(&script_with_pwd);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        let status = output.status;
        assert_eq!(
            status.success(),
            succeeds,
            "{location}: {status}\n{script}{out}{err}"
        );
        // The standard error of a successful command is the progress of a build, which pages do not show.
        self.last_output = if succeeds { out } else { out + &err };
        if let Ok(current_dir) = fs::read_to_string(&cwd_file) {
            self.current_dir = PathBuf::from(current_dir.trim_end());
        }
        self.share_target();
    }

    /// Links `target` of a new project to the shared target directory.
    fn share_target(&self) {
        let target = self.current_dir.join("target");
        let is_new_project = self.current_dir.starts_with(self.directory.path());
        if is_new_project && self.current_dir.join("Cargo.toml").is_file() && !target.exists() {
            fs::create_dir_all(self.target()).unwrap();
            std::os::unix::fs::symlink(self.target(), target).unwrap();
        }
    }

    /// Runs a script in the environment that the guide's first section sets up.
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

    /// The target directory. All new projects share one, so that the SDK's dependencies are compiled once; examples
    /// have the one of all tests.
    fn target(&self) -> PathBuf {
        match self.path.starts_with("examples-hooks/") {
            true => target_dir().join("hooks"),
            false => target_dir().join("new-hook"),
        }
    }
}

/// Copies the modules of the examples with the names of their directories.
fn copy_example_modules(directory: &Path) {
    for example in hooks::examples().unwrap() {
        let name = example.directory.file_name().unwrap().to_str().unwrap();
        let module = hooks::example(&example.package).unwrap();
        fs::copy(module, directory.join(format!("{name}.wasm"))).unwrap();
    }
}

/// Copies an example. The links are followed, since one of them is the SDK.
fn copy(example: &Path, to: &Path) {
    let mut copy = Command::new("cp");
    let copied = copy.args(["-aL"]).args([example, to]).status().unwrap();
    assert!(copied.success(), "{} is not copied", example.display());
}
