//! Compiled modules that are kept between runs, so that an unchanged module is not compiled again.
//!
//! An entry is machine code, so it is never run from the cache. The entries of a module are copied into the private
//! directory of the run, and only if the cache is as private as that directory: it belongs to this user with mode 0700,
//! the directories above it can only be changed by this user and root, and an entry is a file of this user that nobody
//! else may read or write, with the content that its name says. Whoever can change that can change the user's
//! programs too. Anything else is compiled, as without a cache.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// The most bytes of all entries together; those that were not used for the longest time are removed.
const MAX_BYTES: u64 = 1 << 30;
/// Other versions of this program have directories of their own.
const DIRECTORY: &str = concat!("virt-hook/compiled-", env!("CARGO_PKG_VERSION"));
/// What their names begin with.
const OF_VERSION: &str = "compiled-";
const ENDING: &str = ".cwasm";
/// What the name of an entry begins with while it is written, and how long that takes at most.
const ARRIVING: &str = ".arriving-";
const LONGEST_ARRIVAL: Duration = Duration::from_secs(3600);
const COST: &str = ".cost";
/// The largest record of a cost, in bytes.
const MAX_COST: u64 = 4 << 10;
const OTHERS: u32 = 0o077;
const OTHERS_WRITE: u32 = 0o022;
const STICKY: u32 = 0o1000;

/// The cost of the compilation that the code of a module comes from.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CompileCost {
    /// The start of the child included.
    pub(crate) millis: u64,
    /// Of the child, in bytes.
    pub(crate) peak_memory: Option<u64>,
    /// The limit of the smallest sidecar that it exceeds, empty if it exceeds none; `None` if that was not tried.
    pub(crate) refused_in_smallest_sidecar: Option<String>,
}

/// A private directory of entries `MODULE-ENGINE-CONTENT.cwasm`, two sha256 with the engine's key between.
#[derive(Debug)]
pub(crate) struct CompiledModuleCache {
    dir: PathBuf,
    max_bytes: u64,
}

impl CompiledModuleCache {
    /// The user's cache below `$XDG_CACHE_HOME` or `~/.cache`; `None`, with a log line, if there can be none.
    pub(crate) fn of_user() -> Option<Self> {
        let given = |name| std::env::var_os(name).map(PathBuf::from);
        let absolute = |path: &PathBuf| path.is_absolute();
        let base = given("XDG_CACHE_HOME").filter(absolute);
        let base = base.or_else(|| Some(given("HOME").filter(absolute)?.join(".cache")))?;
        let dir = base.join(DIRECTORY);
        match Self::open(&dir, MAX_BYTES) {
            Ok(cache) => Some(cache),
            Err(reason) => {
                tracing::info!(dir = %dir.display(), %reason, "compiled modules are not kept between runs");
                None
            }
        }
    }

    fn open(dir: &Path, max_bytes: u64) -> io::Result<Self> {
        make_private(dir)?;
        let dir = fs::canonicalize(dir)?;
        let own = fs::symlink_metadata(&dir)?;
        if own.uid() != uid() || own.mode() & OTHERS != 0 {
            return Err(io::Error::other("others may read or write it"));
        }
        for above in dir.ancestors().skip(1) {
            let metadata = fs::symlink_metadata(above)?;
            let is_ours = metadata.uid() == uid() || metadata.uid() == 0;
            // In a sticky directory, others cannot replace what is ours.
            let is_closed = metadata.mode() & OTHERS_WRITE == 0 || metadata.mode() & STICKY != 0;
            if !is_ours || !is_closed {
                let above = above.display();
                return Err(io::Error::other(format!("others may write to {above}")));
            }
        }
        Ok(Self { dir, max_bytes })
    }

    /// Copies the entries of a module into `compiled`, the private directory of a run.
    pub(crate) fn fetch(&self, module: &Path, compiled: &Path) {
        self.fetch_if(module, compiled, |_| true);
    }

    /// The same for a run that tells what the compilation cost: only if that was kept.
    pub(crate) fn fetch_measured(&self, module: &Path, compiled: &Path) {
        self.fetch_if(module, compiled, |digest| self.cost(digest).is_some());
    }

    fn fetch_if(&self, module: &Path, compiled: &Path, wanted: impl Fn(&str) -> bool) {
        let fetched = || -> io::Result<()> {
            let digest = hashed(&mut File::open(module)?, &mut io::sink())?;
            if !wanted(&digest) {
                return Ok(());
            }
            for (name, path) in self.entries()? {
                if let Some(entry) = Entry::parse(&name).filter(|entry| entry.module == digest) {
                    fetch_entry(&path, &entry, compiled)?;
                }
            }
            Ok(())
        };
        if let Err(reason) = fetched() {
            tracing::info!(module = %module.display(), %reason, "nothing kept is used");
        }
    }

    /// What compiling a module cost, if that was kept.
    pub(crate) fn cost(&self, module: &str) -> Option<CompileCost> {
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
        let path = self.dir.join(format!("{module}{COST}"));
        let file = OpenOptions::new().read(true).custom_flags(flags).open(path);
        let mut text = String::new();
        file.ok()?.take(MAX_COST).read_to_string(&mut text).ok()?;
        serde_json::from_str(&text).ok()
    }

    /// Keeps what compiling a module cost.
    pub(crate) fn keep_cost(&self, module: &str, cost: &CompileCost) {
        let kept = || -> io::Result<()> {
            let mut arriving = tempfile::Builder::new()
                .prefix(ARRIVING)
                .tempfile_in(&self.dir)?;
            arriving.write_all(&serde_json::to_vec(cost)?)?;
            arriving.persist(self.dir.join(format!("{module}{COST}")))?;
            Ok(())
        };
        if let Err(reason) = kept() {
            tracing::info!(%reason, "what compiling a module cost is not kept");
        }
    }

    /// Keeps what a run has compiled.
    pub(crate) fn keep(&self, compiled: &Path) {
        let kept = || -> io::Result<()> {
            let known = self.entries()?;
            for (name, path) in entries(compiled)? {
                let Some(key) = name.strip_suffix(ENDING) else {
                    continue;
                };
                let is_known = |(name, _): &(String, PathBuf)| {
                    name.strip_prefix(key)
                        .is_some_and(|rest| rest.starts_with('-'))
                };
                if !known.iter().any(is_known) {
                    self.keep_entry(key, &path)?;
                }
            }
            self.prune()
        };
        if let Err(reason) = kept() {
            tracing::info!(%reason, "a compiled module is not kept");
        }
    }

    fn keep_entry(&self, key: &str, compiled: &Path) -> io::Result<()> {
        let mut arriving = tempfile::Builder::new()
            .prefix(ARRIVING)
            .tempfile_in(&self.dir)?;
        let content = hashed(&mut File::open(compiled)?, arriving.as_file_mut())?;
        arriving.persist(self.dir.join(format!("{key}-{content}{ENDING}")))?;
        Ok(())
    }

    /// Removes what killed runs and other versions have left, and then the entries that were not used for the longest time.
    fn prune(&self) -> io::Result<()> {
        for leftover in self.unfinished()? {
            fs::remove_file(leftover)?;
        }
        for directory in self.other_versions()? {
            fs::remove_dir_all(directory)?;
        }
        let mut entries = Vec::new();
        for (_, path) in self.entries()? {
            let metadata = fs::symlink_metadata(&path)?;
            entries.push((metadata.modified()?, metadata.len(), path));
        }
        entries.sort();
        let mut bytes: u64 = entries.iter().map(|(_, bytes, _)| bytes).sum();
        for (_, size, path) in entries {
            if bytes <= self.max_bytes {
                break;
            }
            fs::remove_file(path)?;
            bytes -= size;
        }
        Ok(())
    }

    /// Entries of which the writer must have been killed.
    fn unfinished(&self) -> io::Result<Vec<PathBuf>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.dir)? {
            let entry = entry?;
            let is_arriving = entry
                .file_name()
                .to_str()
                .is_some_and(|name| name.starts_with(ARRIVING));
            // An entry that has just arrived has another name.
            let age = entry.metadata().and_then(|metadata| metadata.modified());
            let age = age.ok().and_then(|modified| modified.elapsed().ok());
            if is_arriving && age.is_some_and(|age| age > LONGEST_ARRIVAL) {
                found.push(entry.path());
            }
        }
        Ok(found)
    }

    /// The directories of other versions beside this one: nothing prunes them if their program is gone.
    fn other_versions(&self) -> io::Result<Vec<PathBuf>> {
        let is_of_version = |path: &Path| {
            let name = path.file_name().and_then(OsStr::to_str);
            name.is_some_and(|name| name.starts_with(OF_VERSION))
        };
        let Some(base) = self.dir.parent().filter(|_| is_of_version(&self.dir)) else {
            return Ok(Vec::new());
        };
        let mut found = Vec::new();
        for entry in fs::read_dir(base)? {
            let entry = entry?;
            let path = entry.path();
            if entry.file_type()?.is_dir() && is_of_version(&path) && path != self.dir {
                found.push(path);
            }
        }
        Ok(found)
    }

    fn entries(&self) -> io::Result<Vec<(String, PathBuf)>> {
        entries(&self.dir)
    }
}

/// The parts of an entry's name.
struct Entry<'a> {
    module: &'a str,
    engine: &'a str,
    content: &'a str,
}

impl<'a> Entry<'a> {
    fn parse(name: &'a str) -> Option<Self> {
        let mut parts = name.strip_suffix(ENDING)?.split('-');
        let (module, engine, content) = (parts.next()?, parts.next()?, parts.next()?);
        let entry = Self {
            module,
            engine,
            content,
        };
        parts.next().is_none().then_some(entry)
    }
}

/// Copies an entry if it is private and intact, and removes it otherwise.
fn fetch_entry(path: &Path, entry: &Entry<'_>, compiled: &Path) -> io::Result<()> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let opened = OpenOptions::new().read(true).custom_flags(flags).open(path);
    let mut file = opened?;
    let metadata = file.metadata()?;
    let is_private = metadata.is_file() && metadata.uid() == uid() && metadata.mode() & OTHERS == 0;
    let mut copy = tempfile::Builder::new()
        .prefix(".kept-")
        .tempfile_in(compiled)?;
    if !is_private || hashed(&mut file, copy.as_file_mut())? != entry.content {
        tracing::info!(entry = %path.display(), "a kept module is damaged, or others may change it: it is removed");
        return fs::remove_file(path);
    }
    let (module, engine) = (entry.module, entry.engine);
    copy.persist(compiled.join(format!("{module}-{engine}{ENDING}")))?;
    file.set_modified(SystemTime::now())
}

/// Creates a directory for this user alone, and those above it.
pub(crate) fn make_private(dir: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).recursive(true).create(dir)
}

/// Names and paths of the files in a directory that are not hidden.
fn entries(dir: &Path) -> io::Result<Vec<(String, PathBuf)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        match entry.file_name().into_string() {
            Ok(name) if !name.starts_with('.') => found.push((name, entry.path())),
            _ => {}
        }
    }
    Ok(found)
}

/// Copies everything, and returns its sha256 in hexadecimal.
fn hashed(from: &mut impl Read, to: &mut impl Write) -> io::Result<String> {
    let (mut hasher, mut buffer) = (Sha256::new(), vec![0; 64 << 10]);
    loop {
        let read = from.read(&mut buffer)?;
        if read == 0 {
            break;
        }
        hasher.update(&buffer[..read]);
        to.write_all(&buffer[..read])?;
    }
    let digest = hasher.finalize();
    Ok(format!("{digest:x}"))
}

fn uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    struct Desk {
        place: tempfile::TempDir,
        cache: CompiledModuleCache,
    }

    impl Desk {
        fn new(max_bytes: u64) -> Self {
            let place = tempfile::tempdir().unwrap();
            let cache = CompiledModuleCache::open(&place.path().join("cache"), max_bytes).unwrap();
            Self { place, cache }
        }

        /// Keeps `code` as what the module `module` is compiled into.
        fn keep(&self, module: &str, code: &str) {
            let compiled = self.place.path().join(format!("compiled-{module}"));
            make_private(&compiled).unwrap();
            let digest = hashed(&mut module.as_bytes(), &mut io::sink()).unwrap();
            fs::write(compiled.join(format!("{digest}-00ff{ENDING}")), code).unwrap();
            self.cache.keep(&compiled);
        }

        /// What a later run is given for the module.
        fn fetch(&self, module: &str) -> Option<String> {
            let file = self.place.path().join("module.wasm");
            fs::write(&file, module).unwrap();
            let compiled = tempfile::tempdir_in(self.place.path()).unwrap();
            self.cache.fetch(&file, compiled.path());
            let found = entries(compiled.path()).unwrap().pop();
            found.map(|(_, path)| fs::read_to_string(path).unwrap())
        }

        fn entry(&self) -> PathBuf {
            self.cache.entries().unwrap().pop().unwrap().1
        }
    }

    #[test]
    fn what_was_compiled_is_found_by_the_modules_digest() {
        let desk = Desk::new(MAX_BYTES);
        desk.keep("a", "code");
        desk.keep("a", "code");
        assert_eq!(desk.fetch("a").as_deref(), Some("code"));
        assert_eq!(desk.fetch("b"), None);
        assert_eq!(desk.cache.entries().unwrap().len(), 1);
        let mode = fs::metadata(desk.entry()).unwrap().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn what_compiling_cost_is_kept() {
        let desk = Desk::new(MAX_BYTES);
        assert_eq!(desk.cache.cost("ab"), None);
        let cost = CompileCost {
            millis: 7,
            peak_memory: Some(8),
            refused_in_smallest_sidecar: Some(String::new()),
        };
        desk.cache.keep_cost("ab", &cost);
        assert_eq!(desk.cache.cost("ab"), Some(cost));
        fs::write(desk.entry(), "damaged").unwrap();
        assert_eq!(desk.cache.cost("ab"), None);
    }

    #[test]
    fn code_without_its_cost_is_not_for_runs_that_tell_it() {
        let desk = Desk::new(MAX_BYTES);
        desk.keep("a", "code");
        let file = desk.place.path().join("module.wasm");
        fs::write(&file, "a").unwrap();
        let fetched = || {
            let compiled = tempfile::tempdir_in(desk.place.path()).unwrap();
            desk.cache.fetch_measured(&file, compiled.path());
            entries(compiled.path()).unwrap().len()
        };
        assert_eq!(fetched(), 0);
        let cost = CompileCost {
            millis: 7,
            peak_memory: None,
            refused_in_smallest_sidecar: None,
        };
        let digest = hashed(&mut "a".as_bytes(), &mut io::sink()).unwrap();
        desk.cache.keep_cost(&digest, &cost);
        assert_eq!(fetched(), 1);
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
        let elsewhere = desk.place.path().join("elsewhere");
        fs::rename(&entry, &elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &entry).unwrap();
        assert_eq!(desk.fetch("a"), None);
    }

    #[test]
    fn a_directory_that_others_may_change_is_no_cache() {
        let place = tempfile::tempdir().unwrap();
        let open = |path: &Path| CompiledModuleCache::open(path, MAX_BYTES);
        let shared = place.path().join("shared");
        fs::create_dir(&shared).unwrap();
        fs::set_permissions(&shared, Permissions::from_mode(0o770)).unwrap();
        assert!(open(&shared).is_err());
        assert!(open(&shared.join("cache")).is_err());
        fs::set_permissions(&shared, Permissions::from_mode(0o755)).unwrap();
        assert!(open(&shared.join("cache")).is_ok());
    }

    #[test]
    fn what_killed_runs_and_other_versions_left_is_removed() {
        let place = tempfile::tempdir().unwrap();
        let base = place.path().join("cache");
        let dir = |name: &str| {
            let dir = base.join(name);
            make_private(&dir).unwrap();
            dir
        };
        let (old, unrelated) = (dir("compiled-0.0.1"), dir("other"));
        fs::write(old.join("a.cwasm"), "code").unwrap();
        let desk = Desk {
            cache: CompiledModuleCache::open(&dir("compiled-0.0.2"), MAX_BYTES).unwrap(),
            place,
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
}
