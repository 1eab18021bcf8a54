#![allow(clippy::unwrap_used)]

use std::os::unix::fs::PermissionsExt;

use super::super::engine::{Role, engine};
use super::super::trust::tests::trust_in;
use super::*;

/// The smallest module there is: none of a hook, but code, and quickly compiled.
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
            engine: engine(Role::Run).unwrap(),
        }
    }

    /// Writes an artifact as it should be, under the name for `key`.
    fn put(&self, code: &[u8], key: &str) -> PathBuf {
        let written = self.dir.path().join("written");
        fs::write(&written, code).unwrap();
        let content = artifact::checksum(&File::open(&written).unwrap()).unwrap();
        let path = self
            .dir
            .path()
            .join(format!("{DIGEST}-{key}-{content}.cwasm"));
        fs::rename(&written, &path).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        path
    }

    fn key(&self) -> String {
        compatibility(&self.engine)
    }

    fn shelves(&self) -> Shelves {
        let dirs = [self.dir.path().to_owned()];
        Shelves::trusted(trust_in(self.dir.path()), &dirs)
    }

    fn refusal(&self, path: &Path) -> String {
        let loaded = self.shelves().load(&self.engine, DIGEST, path);
        loaded.err().unwrap()
    }

    fn is_found(&self) -> bool {
        let found = self
            .shelves()
            .find(&self.engine, DIGEST, Path::new("m.wasm"));
        found.is_some()
    }
}

fn code() -> Vec<u8> {
    use super::super::engine::Machine;
    super::super::child::compile(MODULE, Machine::Any).unwrap()
}

#[test]
fn what_fits_is_loaded_from_where_it_lies() {
    let image = Image::new();
    assert!(!image.is_found());
    let path = image.put(&code(), &image.key());
    let found = image
        .shelves()
        .find(&image.engine, DIGEST, Path::new("m.wasm"));
    assert_eq!(
        found.unwrap().1,
        image
            .dir
            .path()
            .canonicalize()
            .unwrap()
            .join(path.file_name().unwrap())
    );
}

#[test]
fn what_does_not_fit_is_left_alone_and_named() {
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

    let foreign = image.put(b"\x7fELF, but of somebody else", &key);
    assert!(!image.refusal(&foreign).is_empty());
    let nameless = image.dir.path().join(format!("{DIGEST}.cwasm"));
    fs::write(&nameless, &code).unwrap();
    assert!(image.refusal(&nameless).contains("its name"));
    assert!(!image.is_found());

    // With one that fits beside them, that one is found.
    image.put(&code, &key);
    assert!(image.is_found());
}

#[test]
fn what_others_may_write_is_not_run() {
    let image = Image::new();
    let path = image.put(&code(), &image.key());
    fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
    assert!(image.refusal(&path).contains("others than root"));
    assert!(!image.is_found());
    fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
    assert!(image.is_found());
    fs::set_permissions(image.dir.path(), Permissions::from_mode(0o777)).unwrap();
    assert!(image.shelves().is_empty() && !image.is_found());
}

#[test]
fn links_to_elsewhere_are_not_followed() {
    let (image, elsewhere) = (Image::new(), Image::new());
    let path = elsewhere.put(&code(), &elsewhere.key());
    let link = image.dir.path().join(path.file_name().unwrap());
    std::os::unix::fs::symlink(&path, &link).unwrap();
    assert!(!image.is_found());
}

#[test]
fn the_usual_directory_may_be_missing_and_a_named_one_not() {
    let image = Image::new();
    let missing = image.dir.path().join("none");
    assert_eq!(baked_dirs(None, &missing), Vec::<PathBuf>::new());
    assert_eq!(baked_dirs(None, image.dir.path()), [image.dir.path()]);
    assert_eq!(
        baked_dirs(Some(&missing), image.dir.path()),
        [missing.as_path()]
    );
}
