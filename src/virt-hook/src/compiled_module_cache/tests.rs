#![allow(clippy::unwrap_used)]
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

use super::*;

struct Desk {
    temp_dir: tempfile::TempDir,
    cache: CompiledModuleCache,
}

impl Desk {
    fn new(max_bytes: u64) -> Self {
        let temp_dir = tempfile::tempdir().unwrap();
        let cache = CompiledModuleCache::open(&temp_dir.path().join("cache"), max_bytes).unwrap();
        Self { temp_dir, cache }
    }

    /// Keeps `code` as what the module `module` is compiled into.
    fn keep(&self, module: &str, code: &str) {
        let compiled = self.temp_dir.path().join(format!("compiled-{module}"));
        make_private(&compiled).unwrap();
        let digest = hashed(&mut module.as_bytes(), &mut io::sink()).unwrap();
        fs::write(compiled.join(format!("{digest}-00ff{ENDING}")), code).unwrap();
        self.cache.keep(&compiled);
    }

    /// What a later run is given for the module.
    fn fetch(&self, module: &str) -> Option<String> {
        let file = self.temp_dir.path().join("module.wasm");
        fs::write(&file, module).unwrap();
        let compiled = tempfile::tempdir_in(self.temp_dir.path()).unwrap();
        self.cache.fetch(&file, compiled.path());
        let found = entries(compiled.path()).unwrap().pop();
        found.map(|(_, path)| fs::read_to_string(path).unwrap())
    }

    fn entry(&self) -> PathBuf {
        self.cache.entries().unwrap().pop().unwrap().1
    }
}

#[test]
fn compiled_code_is_found_by_module_digest() {
    let desk = Desk::new(MAX_BYTES);
    desk.keep("a", "code");
    desk.keep("a", "code");
    assert_eq!(desk.fetch("a").as_deref(), Some("code"));
    assert_eq!(desk.fetch("b"), None);
    assert_eq!(desk.cache.entries().unwrap().len(), 1);
    let mode = fs::metadata(desk.entry()).unwrap().mode();
    assert_eq!(mode & 0o777, 0o600);
}

/// The functions of a module file that a later run is given.
fn functions(desk: &Desk, module: &str) -> Option<String> {
    let run = tempfile::tempdir_in(desk.temp_dir.path()).unwrap();
    desk.cache.fetch_functions(Path::new(module), run.path());
    fs::read_to_string(functions_file(run.path(), Path::new(module))).ok()
}

fn keep_functions(desk: &Desk, module: &str, codes: &str) {
    let run = tempfile::tempdir_in(desk.temp_dir.path()).unwrap();
    fs::write(functions_file(run.path(), Path::new(module)), codes).unwrap();
    desk.cache.keep_functions(run.path());
}

#[test]
fn each_module_file_has_the_functions_of_its_last_build() {
    let desk = Desk::new(MAX_BYTES);
    keep_functions(&desk, "/a.wasm", "first");
    keep_functions(&desk, "/b.wasm", "other");
    keep_functions(&desk, "/a.wasm", "second");
    keep_functions(&desk, "/a.wasm", "second");
    assert_eq!(functions(&desk, "/a.wasm").as_deref(), Some("second"));
    assert_eq!(functions(&desk, "/b.wasm").as_deref(), Some("other"));
    assert_eq!(functions(&desk, "/c.wasm"), None);
    assert_eq!(desk.cache.entries().unwrap().len(), 2);
    // They are no compiled module.
    assert_eq!(desk.fetch("a"), None);
}

#[test]
fn functions_that_are_damaged_or_that_others_may_change_are_not_used() {
    let desk = Desk::new(MAX_BYTES);
    keep_functions(&desk, "/a.wasm", "codes");
    fs::write(desk.entry(), "poison").unwrap();
    assert_eq!(functions(&desk, "/a.wasm"), None);
    assert_eq!(desk.cache.entries().unwrap().len(), 0);
    keep_functions(&desk, "/a.wasm", "codes");
    fs::set_permissions(desk.entry(), Permissions::from_mode(0o620)).unwrap();
    assert_eq!(functions(&desk, "/a.wasm"), None);
    keep_functions(&desk, "/a.wasm", "codes");
    let (entry, elsewhere) = (desk.entry(), desk.temp_dir.path().join("elsewhere"));
    fs::rename(&entry, &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &entry).unwrap();
    assert_eq!(functions(&desk, "/a.wasm"), None);
}

#[test]
fn functions_count_for_the_limit() {
    let desk = Desk::new(8);
    keep_functions(&desk, "/a.wasm", "12345");
    keep_functions(&desk, "/b.wasm", "12345");
    assert_eq!(desk.cache.entries().unwrap().len(), 1);
}

#[test]
fn what_compiling_cost_is_kept() {
    let desk = Desk::new(MAX_BYTES);
    assert_eq!(desk.cache.cost("ab"), None);
    let cost = CompileCost {
        millis: 7,
        peak_memory: Some(8),
        smallest_sidecar: SmallestSidecar::Suffices,
        module_bytes: 9,
        is_of_earlier_build: false,
    };
    desk.cache.keep_cost("ab", &cost);
    assert_eq!(desk.cache.cost("ab"), Some(cost.clone()));
    desk.cache.keep_first_cost(Path::new("/a.wasm"), &cost);
    assert_eq!(desk.cache.first_cost(Path::new("/b.wasm")), None);
    assert_eq!(desk.cache.first_cost(Path::new("/a.wasm")), Some(cost));
    fs::remove_file(
        desk.cache
            .dir
            .join(first_cost_name(Path::new("/a.wasm")).unwrap()),
    )
    .unwrap();
    fs::write(desk.entry(), "damaged").unwrap();
    assert_eq!(desk.cache.cost("ab"), None);
}

#[test]
fn a_damaged_entry_is_not_used_and_removed() {
    for change in ["cod", "codes", "kode", ""] {
        let desk = Desk::new(MAX_BYTES);
        desk.keep("a", "code");
        let entry = desk.entry();
        fs::write(&entry, change).unwrap();
        assert_eq!(desk.fetch("a"), None, "{change}");
        assert!(!entry.exists(), "{change}");
    }
}

#[test]
fn an_entry_that_others_may_change_is_not_used() {
    let desk = Desk::new(MAX_BYTES);
    desk.keep("a", "code");
    fs::set_permissions(desk.entry(), Permissions::from_mode(0o620)).unwrap();
    assert_eq!(desk.fetch("a"), None);
    desk.keep("a", "code");
    let entry = desk.entry();
    let elsewhere = desk.temp_dir.path().join("elsewhere");
    fs::rename(&entry, &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &entry).unwrap();
    assert_eq!(desk.fetch("a"), None);
}

#[test]
fn directory_writable_by_others_is_not_used_as_cache() {
    let temp_dir = tempfile::tempdir().unwrap();
    let open = |path: &Path| CompiledModuleCache::open(path, MAX_BYTES);
    let shared = temp_dir.path().join("shared");
    fs::create_dir(&shared).unwrap();
    fs::set_permissions(&shared, Permissions::from_mode(0o770)).unwrap();
    assert!(open(&shared).is_err());
    assert!(open(&shared.join("cache")).is_err());
    fs::set_permissions(&shared, Permissions::from_mode(0o755)).unwrap();
    assert!(open(&shared.join("cache")).is_ok());
}

#[test]
fn leftovers_of_killed_runs_and_other_versions_are_removed() {
    let temp_dir = tempfile::tempdir().unwrap();
    let base = temp_dir.path().join("cache");
    let dir = |name: &str| {
        let dir = base.join(name);
        make_private(&dir).unwrap();
        dir
    };
    let (old, unrelated) = (dir("compiled-0.0.1"), dir("other"));
    fs::write(old.join("a.cwasm"), "code").unwrap();
    let desk = Desk {
        cache: CompiledModuleCache::open(&dir("compiled-0.0.2"), MAX_BYTES).unwrap(),
        temp_dir,
    };
    let [killed, writing] = ["killed", "writing"].map(|name| {
        let path = desk.cache.dir.join(format!("{ARRIVING}{name}"));
        fs::write(&path, "half").unwrap();
        path
    });
    let file = File::options().write(true).open(&killed).unwrap();
    file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
    desk.keep("a", "code");
    assert!(!old.exists() && unrelated.exists());
    assert!(!killed.exists() && writing.exists());
    assert_eq!(desk.fetch("a").as_deref(), Some("code"));
}

#[test]
fn entries_that_were_not_used_for_long_make_room() {
    let desk = Desk::new(10);
    desk.keep("a", "123456");
    let old = File::open(desk.entry()).unwrap();
    old.set_modified(SystemTime::UNIX_EPOCH).unwrap();
    desk.keep("b", "abcdef");
    assert_eq!(desk.fetch("a"), None);
    assert_eq!(desk.fetch("b").as_deref(), Some("abcdef"));
}
