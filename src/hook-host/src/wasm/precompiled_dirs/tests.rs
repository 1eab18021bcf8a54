//! Artifacts of an image that are loaded, or skipped with a reason.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

use super::super::engine_config::{EngineRole, engine};
use super::super::precompiled_file_trust::tests::trust_in;
use super::*;

/// The smallest component. It is not a hook, but compiles quickly.
const COMPONENT: &[u8] = b"\0asm\x0d\0\x01\0";
const DIGEST: &str = "0123456789abcdef";

struct PrecompiledDirFixture {
    dir: tempfile::TempDir,
    engine: Engine,
}

impl PrecompiledDirFixture {
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
    super::super::compile_child::compile(COMPONENT, TargetMachine::Any).unwrap()
}

#[test]
fn a_matching_artifact_is_loaded_from_the_image() {
    let fixture = PrecompiledDirFixture::new();
    assert!(!fixture.is_found());
    let path = fixture.put(&code(), &fixture.key());
    let artifact = fixture
        .dirs()
        .find(&fixture.engine, DIGEST, Path::new("m.wasm"));
    assert_eq!(
        artifact.unwrap().1,
        fixture
            .dir
            .path()
            .canonicalize()
            .unwrap()
            .join(path.file_name().unwrap())
    );
}

#[test]
fn artifacts_that_do_not_match_are_skipped_with_a_reason() {
    let fixture = PrecompiledDirFixture::new();
    let (code, key) = (code(), fixture.key());
    let stale = fixture.put(&code, "00112233");
    assert!(fixture.refusal(&stale).contains("another engine (00112233"));

    // The header has byte order and architecture.
    let is_own = |row: &(&str, &str, u16)| row.0 == std::env::consts::ARCH;
    let own = ARCHITECTURES.into_iter().find(is_own).unwrap().1;
    for (_, other, number) in ARCHITECTURES.into_iter().filter(|row| !is_own(row)) {
        let mut foreign = code.clone();
        let (order, number) = match other {
            "s390x" => (2, number.to_be_bytes()),
            _ => (1, number.to_le_bytes()),
        };
        foreign[5] = order;
        foreign[18..20].copy_from_slice(&number);
        let path = fixture.put(&foreign, "00112233");
        assert_eq!(
            fixture.refusal(&path),
            format!(
                "it is for {other}, and this program is for {own}: compile the module on such a machine"
            )
        );
    }

    let cut = fixture.put(&code, &key);
    fs::write(&cut, &code[..code.len() / 2]).unwrap();
    assert!(fixture.refusal(&cut).contains("truncated or was altered"));
    let mut altered = code.clone();
    altered[code.len() / 2] ^= 1;
    fs::write(&cut, &altered).unwrap();
    assert!(fixture.refusal(&cut).contains("truncated or was altered"));

    let no_artifact = fixture.put(b"\x7fELF, but of somebody else", &key);
    assert!(!fixture.refusal(&no_artifact).is_empty());
    let nameless = fixture.dir.path().join(format!("{DIGEST}.cwasm"));
    fs::write(&nameless, &code).unwrap();
    assert!(fixture.refusal(&nameless).contains("its name"));
    assert!(!fixture.is_found());

    // A matching artifact beside them is found.
    fixture.put(&code, &key);
    assert!(fixture.is_found());
}

#[test]
fn artifacts_that_others_may_write_are_not_used() {
    let fixture = PrecompiledDirFixture::new();
    let path = fixture.put(&code(), &fixture.key());
    fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
    assert!(fixture.refusal(&path).contains("others than root"));
    assert!(!fixture.is_found());
    fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
    assert!(fixture.is_found());
    fs::set_permissions(fixture.dir.path(), Permissions::from_mode(0o777)).unwrap();
    assert!(fixture.dirs().is_empty() && !fixture.is_found());
}

#[test]
fn symbolic_links_out_of_the_directory_are_not_followed() {
    let (fixture, elsewhere) = (PrecompiledDirFixture::new(), PrecompiledDirFixture::new());
    let path = elsewhere.put(&code(), &elsewhere.key());
    let link = fixture.dir.path().join(path.file_name().unwrap());
    std::os::unix::fs::symlink(&path, &link).unwrap();
    assert!(!fixture.is_found());
}

#[test]
fn a_missing_default_directory_is_skipped_and_a_configured_one_is_kept() {
    let fixture = PrecompiledDirFixture::new();
    let missing = fixture.dir.path().join("none");
    assert_eq!(precompiled_dirs(None, &missing), Vec::<PathBuf>::new());
    assert_eq!(
        precompiled_dirs(None, fixture.dir.path()),
        [fixture.dir.path()]
    );
    assert_eq!(
        precompiled_dirs(Some(&missing), fixture.dir.path()),
        [missing.as_path()]
    );
}
