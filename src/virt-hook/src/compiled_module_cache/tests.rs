//! Compiled code, functions and costs are found again; damaged, untrusted, old and excess entries are not.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::time::SystemTime;

use super::full_build_cost_name;
use super::*;

struct TestCache {
    temp_dir: tempfile::TempDir,
    cache: CompiledModuleCache,
}

impl TestCache {
    fn new(max_bytes: u64) -> Self {
        let temp_dir = tempfile::tempdir().unwrap();
        let cache = CompiledModuleCache::open(&temp_dir.path().join("cache"), max_bytes).unwrap();
        Self { temp_dir, cache }
    }

    /// Stores `code` as the code of the module `module`.
    fn store(&self, module: &str, code: &str) {
        let compiled = self.temp_dir.path().join(format!("compiled-{module}"));
        make_private(&compiled).unwrap();
        let digest = copy_and_hash(&mut module.as_bytes(), &mut io::sink()).unwrap();
        fs::write(compiled.join(format!("{digest}-00ff{MODULE_SUFFIX}")), code).unwrap();
        self.cache.store(&compiled);
    }

    /// The code that a later run fetches for the module.
    fn fetch(&self, module: &str) -> Option<String> {
        let file = self.temp_dir.path().join("module.wasm");
        fs::write(&file, module).unwrap();
        let compiled = tempfile::tempdir_in(self.temp_dir.path()).unwrap();
        self.cache.fetch(&file, compiled.path());
        let entry = entries(compiled.path()).unwrap().pop();
        entry.map(|(_, path)| fs::read_to_string(path).unwrap())
    }

    fn entry(&self) -> PathBuf {
        self.cache.entries().unwrap().pop().unwrap().1
    }
}

#[test]
fn compiled_code_is_found_by_the_digest_of_the_module() {
    let test = TestCache::new(MAX_BYTES);
    test.store("a", "code");
    test.store("a", "code");
    assert_eq!(test.fetch("a").as_deref(), Some("code"));
    assert_eq!(test.fetch("b"), None);
    assert_eq!(test.cache.entries().unwrap().len(), 1);
    let mode = fs::metadata(test.entry()).unwrap().mode();
    assert_eq!(mode & 0o777, 0o600);
}

/// The functions that a later run fetches for a module file.
fn functions(test: &TestCache, module: &str) -> Option<String> {
    let run = tempfile::tempdir_in(test.temp_dir.path()).unwrap();
    test.cache.fetch_functions(Path::new(module), run.path());
    fs::read_to_string(functions_file(run.path(), Path::new(module))).ok()
}

fn store_functions(test: &TestCache, module: &str, content: &str) {
    let run = tempfile::tempdir_in(test.temp_dir.path()).unwrap();
    fs::write(functions_file(run.path(), Path::new(module)), content).unwrap();
    test.cache.store_functions(run.path());
}

#[test]
fn each_module_file_has_the_functions_of_its_last_build() {
    let test = TestCache::new(MAX_BYTES);
    store_functions(&test, "/a.wasm", "first");
    store_functions(&test, "/b.wasm", "other");
    store_functions(&test, "/a.wasm", "second");
    store_functions(&test, "/a.wasm", "second");
    assert_eq!(functions(&test, "/a.wasm").as_deref(), Some("second"));
    assert_eq!(functions(&test, "/b.wasm").as_deref(), Some("other"));
    assert_eq!(functions(&test, "/c.wasm"), None);
    assert_eq!(test.cache.entries().unwrap().len(), 2);
    // Functions are not taken for a compiled module.
    assert_eq!(test.fetch("a"), None);
}

#[test]
fn functions_that_are_damaged_or_that_others_may_change_are_not_used() {
    let test = TestCache::new(MAX_BYTES);
    store_functions(&test, "/a.wasm", "codes");
    fs::write(test.entry(), "poison").unwrap();
    assert_eq!(functions(&test, "/a.wasm"), None);
    assert_eq!(test.cache.entries().unwrap().len(), 0);
    store_functions(&test, "/a.wasm", "codes");
    fs::set_permissions(test.entry(), Permissions::from_mode(0o620)).unwrap();
    assert_eq!(functions(&test, "/a.wasm"), None);
    store_functions(&test, "/a.wasm", "codes");
    let (entry, elsewhere) = (test.entry(), test.temp_dir.path().join("elsewhere"));
    fs::rename(&entry, &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &entry).unwrap();
    assert_eq!(functions(&test, "/a.wasm"), None);
}

#[test]
fn functions_count_towards_the_size_limit() {
    let test = TestCache::new(8);
    store_functions(&test, "/a.wasm", "12345");
    store_functions(&test, "/b.wasm", "12345");
    assert_eq!(test.cache.entries().unwrap().len(), 1);
}

#[test]
fn costs_of_compiling_are_stored() {
    let test = TestCache::new(MAX_BYTES);
    assert_eq!(test.cache.cost("ab"), None);
    let cost = CompileCost {
        millis: 7,
        peak_memory: Some(8),
        in_smallest_sidecar: SmallestSidecarResult::Suffices,
        module_bytes: 9,
        is_of_earlier_build: false,
    };
    test.cache.store_cost("ab", &cost);
    assert_eq!(test.cache.cost("ab"), Some(cost.clone()));
    test.cache
        .store_full_build_cost(Path::new("/a.wasm"), &cost);
    assert_eq!(test.cache.full_build_cost(Path::new("/b.wasm")), None);
    assert_eq!(test.cache.full_build_cost(Path::new("/a.wasm")), Some(cost));
    fs::remove_file(
        test.cache
            .dir
            .join(full_build_cost_name(Path::new("/a.wasm"))),
    )
    .unwrap();
    fs::write(test.entry(), "damaged").unwrap();
    assert_eq!(test.cache.cost("ab"), None);
}

#[test]
fn a_damaged_entry_is_removed_and_not_used() {
    for change in ["cod", "codes", "kode", ""] {
        let test = TestCache::new(MAX_BYTES);
        test.store("a", "code");
        let entry = test.entry();
        fs::write(&entry, change).unwrap();
        assert_eq!(test.fetch("a"), None, "{change}");
        assert!(!entry.exists(), "{change}");
    }
}

#[test]
fn an_entry_that_others_may_change_is_not_used() {
    let test = TestCache::new(MAX_BYTES);
    test.store("a", "code");
    fs::set_permissions(test.entry(), Permissions::from_mode(0o620)).unwrap();
    assert_eq!(test.fetch("a"), None);
    test.store("a", "code");
    let entry = test.entry();
    let elsewhere = test.temp_dir.path().join("elsewhere");
    fs::rename(&entry, &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &entry).unwrap();
    assert_eq!(test.fetch("a"), None);
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
    let test = TestCache {
        cache: CompiledModuleCache::open(&dir("compiled-0.0.2"), MAX_BYTES).unwrap(),
        temp_dir,
    };
    let [killed, writing] = ["killed", "writing"].map(|name| {
        let path = test.cache.dir.join(format!("{PARTIAL_PREFIX}{name}"));
        fs::write(&path, "half").unwrap();
        path
    });
    let file = File::options().write(true).open(&killed).unwrap();
    file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
    test.store("a", "code");
    assert!(!old.exists() && unrelated.exists());
    assert!(!killed.exists() && writing.exists());
    assert_eq!(test.fetch("a").as_deref(), Some("code"));
}

#[test]
fn least_recently_used_entries_are_removed_above_the_size_limit() {
    let test = TestCache::new(10);
    test.store("a", "123456");
    let old = File::open(test.entry()).unwrap();
    old.set_modified(SystemTime::UNIX_EPOCH).unwrap();
    test.store("b", "abcdef");
    assert_eq!(test.fetch("a"), None);
    assert_eq!(test.fetch("b").as_deref(), Some("abcdef"));
}
