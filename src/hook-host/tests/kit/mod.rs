//! What the tests of this crate share: the odd guest, hooks directories, sidecars.
#![allow(dead_code, missing_docs, unreachable_pub, clippy::unwrap_used)]

pub mod by_hand;
pub mod plugin;
pub mod sidecar;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use hook_host::{CollectConfig, Compiler, Invocation, Limits, Reason};

pub const XML: &str = "<domain type='kvm'>\n  <name>ns_vm</name>\n  <uuid>5a9f</uuid>\n  \
    <metadata>\n    <kubevirt xmlns=\"http://kubevirt.io\"><uid>u-1</uid></kubevirt>\n  \
    </metadata>\n</domain>\n";

/// The module of `tests/guests/odd`, built once.
pub fn odd() -> &'static Path {
    static ODD: OnceLock<PathBuf> = OnceLock::new();
    ODD.get_or_init(|| guest("odd-hook"))
}

/// A module of this workspace, built now if it is not yet.
pub fn guest(package: &str) -> PathBuf {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .unwrap();
    let target = workspace.join("target/hooks");
    let built = Command::new(env!("CARGO"))
        .args([
            "build",
            "--quiet",
            "--profile",
            "hook",
            "--target",
            "wasm32-wasip2",
            "-p",
            package,
        ])
        .arg("--target-dir")
        .arg(&target)
        .current_dir(&workspace)
        .status()
        .unwrap();
    assert!(
        built.success(),
        "{package} does not build for wasm32-wasip2"
    );
    target
        .join("wasm32-wasip2/hook")
        .join(package.replace('-', "_"))
        .with_extension("wasm")
}

/// The odd guest with a text in it replaced by another of the same length, wherever it stands.
pub fn odd_with(from: &str, to: &str) -> Vec<u8> {
    assert_eq!(from.len(), to.len());
    let mut bytes = std::fs::read(odd()).unwrap();
    let places = |bytes: &[u8]| {
        bytes
            .windows(from.len())
            .position(|window| window == from.as_bytes())
    };
    assert!(places(&bytes).is_some(), "{from}");
    while let Some(at) = places(&bytes) {
        bytes[at..at + to.len()].copy_from_slice(to.as_bytes());
    }
    bytes
}

pub fn invocation() -> Invocation {
    Invocation {
        reason: Reason::Boot,
        namespace: "ns".into(),
        name: "vm".into(),
        uid: "u-1".into(),
        domain: "ns_vm".into(),
    }
}

/// A hooks directory, and beside it one for artifacts.
pub struct Place(tempfile::TempDir);

impl Place {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub fn hooks(&self) -> PathBuf {
        self.0.path().join("hooks")
    }

    /// A path in the directory of one hook, which is there afterwards.
    pub fn at(&self, directory: &str, file: &str) -> PathBuf {
        let directory = self.hooks().join(directory);
        std::fs::create_dir_all(&directory).unwrap();
        directory.join(file)
    }

    pub fn put(&self, directory: &str, file: &str, bytes: &[u8]) {
        std::fs::write(self.at(directory, file), bytes).unwrap();
    }

    /// Like [`Place::put`], but written long ago.
    pub fn put_old(&self, directory: &str, file: &str, bytes: &[u8]) {
        self.put(directory, file, bytes);
        let hour_ago = std::time::SystemTime::now() - Duration::from_secs(3600);
        let opened = std::fs::File::options()
            .write(true)
            .open(self.at(directory, file));
        opened.unwrap().set_modified(hour_ago).unwrap();
    }

    pub fn put_odd(&self, directory: &str) {
        std::fs::copy(odd(), self.at(directory, "odd.wasm")).unwrap();
    }

    pub fn config(&self, expected: usize) -> CollectConfig {
        CollectConfig {
            hooks_dir: self.hooks(),
            expected,
            deadline: Duration::from_secs(60),
            artifacts_dir: self.0.path().join("artifacts"),
            compiler: Compiler::InProcess,
            limits: Limits::default(),
            host_name: "virt-launcher/9.9.9".into(),
            ..CollectConfig::default()
        }
    }
}
