use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

use super::super::engine_config::{EngineRole, engine};
use super::super::precompiled_file_trust::tests::trust_in;
use super::*;

/// The smallest component. It is not a hook, but compiles quickly.
const MODULE: &[u8] = b"\0asm\x0d\0\x01\0";
const DIGEST: &str = "0123456789abcdef";

struct Image {
    dir: tempfile::TempDir,
    engine: Engine,
}

impl Image {
    fn new() -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
            engine: engine(EngineRole::Run).unwrap(),
        }
    }

    /// Writes an artifact with a valid checksum under the name for the engine key `key`.
    fn put(&self, code: &[u8], key: &str) -> PathBuf {
        let written = self.dir.path().join("written");
        fs::write(&written, code).unwrap();
        let content = file_digest::checksum(&File::open(&written).unwrap()).unwrap();
        let path = self
            .dir
            .path()
            .join(format!("{DIGEST}-{key}-{content}.cwasm"));
        fs::rename(&written, &path).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        path
    }

    fn key(&self) -> String {
        engine_key(&self.engine)
    }

    fn dirs(&self) -> PrecompiledDirs {
        let dirs = [self.dir.path().to_owned()];
        PrecompiledDirs::with_trust(trust_in(self.dir.path()), &dirs)
    }

    fn refusal(&self, path: &Path) -> String {
        let loaded = self.dirs().load(&self.engine, DIGEST, path);
        loaded.err().unwrap()
    }

    fn is_found(&self) -> bool {
        let artifact = self.dirs().find(&self.engine, DIGEST, Path::new("m.wasm"));
        artifact.is_some()
    }
}

fn code() -> Vec<u8> {
    use super::super::engine_config::TargetMachine;
    super::super::compile_child::compile(MODULE, TargetMachine::Any).unwrap()
}

#[test]
fn a_matching_artifact_is_loaded_from_the_image() {
    let image = Image::new();
    assert!(!image.is_found());
    let path = image.put(&code(), &image.key());
    let artifact = image
        .dirs()
        .find(&image.engine, DIGEST, Path::new("m.wasm"));
    assert_eq!(
        artifact.unwrap().1,
        image
            .dir
            .path()
            .canonicalize()
            .unwrap()
            .join(path.file_name().unwrap())
    );
}

#[test]
fn artifacts_that_do_not_match_are_skipped_with_a_reason() {
    let image = Image::new();
    let (code, key) = (code(), image.key());
    let stale = image.put(&code, "00112233");
    assert!(image.refusal(&stale).contains("another engine (00112233"));

    let cut = image.put(&code, &key);
    fs::write(&cut, &code[..code.len() / 2]).unwrap();
    assert!(image.refusal(&cut).contains("truncated or was altered"));
    let mut altered = code.clone();
    altered[code.len() / 2] ^= 1;
    fs::write(&cut, &altered).unwrap();
    assert!(image.refusal(&cut).contains("truncated or was altered"));

    let no_artifact = image.put(b"\x7fELF, but of somebody else", &key);
    assert!(!image.refusal(&no_artifact).is_empty());
    let nameless = image.dir.path().join(format!("{DIGEST}.cwasm"));
    fs::write(&nameless, &code).unwrap();
    assert!(image.refusal(&nameless).contains("its name"));
    assert!(!image.is_found());

    // A matching artifact beside them is artifact.
    image.put(&code, &key);
    assert!(image.is_found());
}

#[test]
fn artifacts_that_others_may_write_are_not_used() {
    let image = Image::new();
    let path = image.put(&code(), &image.key());
    fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
    assert!(image.refusal(&path).contains("others than root"));
    assert!(!image.is_found());
    fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
    assert!(image.is_found());
    fs::set_permissions(image.dir.path(), Permissions::from_mode(0o777)).unwrap();
    assert!(image.dirs().is_empty() && !image.is_found());
}

#[test]
fn symbolic_links_out_of_the_directory_are_not_followed() {
    let (image, elsewhere) = (Image::new(), Image::new());
    let path = elsewhere.put(&code(), &elsewhere.key());
    let link = image.dir.path().join(path.file_name().unwrap());
    std::os::unix::fs::symlink(&path, &link).unwrap();
    assert!(!image.is_found());
}

#[test]
fn a_missing_default_directory_is_skipped_and_a_configured_one_is_kept() {
    let image = Image::new();
    let missing = image.dir.path().join("none");
    assert_eq!(precompiled_dirs(None, &missing), Vec::<PathBuf>::new());
    assert_eq!(precompiled_dirs(None, image.dir.path()), [image.dir.path()]);
    assert_eq!(
        precompiled_dirs(Some(&missing), image.dir.path()),
        [missing.as_path()]
    );
}
