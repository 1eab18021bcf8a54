//! Compiled modules that are kept between runs, so that an unchanged module is not compiled again, and the functions of
//! the last build of each module file, so that only the changed functions of a rebuilt module are compiled.
//!
//! An entry is machine code, so it is never run from the cache. The entries of a module are copied into the private
//! directory of the run, and only if the cache is as private as that directory: it belongs to this user with mode 0700,
//! the directories above it can only be changed by this user and root, and an entry is a file of this user that nobody
//! else may read or write, with the content that its name says. Whoever can change that can change the user's
//! programs too. Anything else is compiled, as without a cache.

use std::ffi::OsStr;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use std::{fs, io};

use hook_host::wasm::{functions_file, module_path_digest};
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Maximum size of all entries together, in bytes. Those that were not used for the longest time are removed.
const MAX_BYTES: u64 = 1 << 30;
/// Other versions of this program have directories of their own.
const DIRECTORY: &str = concat!("virt-hook/compiled-", env!("CARGO_PKG_VERSION"));
const WRITE_BY_OTHERS: u32 = 0o022;
const STICKY_BIT: u32 = 0o1000;

/// A private directory with these files:
/// - `MODULE-ENGINE-CONTENT.cwasm`: a compiled module. MODULE and CONTENT are sha256 digests, ENGINE is the engine's
///   key.
/// - `FILE-CONTENT.functions`: the functions of the last build of a module file. FILE is the sha256 of its path.
/// - `MODULE.cost`: the cost of compiling a module.
/// - `FILE.full-build-cost`: the cost of the last full build of a module file, in which every function was compiled.
#[derive(Debug, Clone)]
pub(crate) struct CompiledModuleCache {
    dir: PathBuf,
    max_bytes: u64,
}

impl CompiledModuleCache {
    /// The user's cache below `$XDG_CACHE_HOME` or `~/.cache`; `None`, with a log line, if there can be none.
    pub(crate) fn for_user() -> Option<Self> {
        match Self::open_for_user() {
            Ok(cache) => Some(cache),
            Err(reason) => {
                tracing::info!(%reason, "compiled modules are not kept between runs");
                None
            }
        }
    }

    /// As [`Self::for_user`], with the reason if there can be none.
    pub(crate) fn open_for_user() -> Result<Self, String> {
        let variable = |name| std::env::var_os(name).map(PathBuf::from);
        let absolute = |path: &PathBuf| path.is_absolute();
        let base = variable("XDG_CACHE_HOME").filter(absolute);
        let base = base.or_else(|| Some(variable("HOME").filter(absolute)?.join(".cache")));
        let base = base.ok_or("neither XDG_CACHE_HOME nor HOME is an absolute path")?;
        let dir = base.join(DIRECTORY);
        Self::open(&dir, MAX_BYTES).map_err(|error| format!("{}: {error}", dir.display()))
    }

    /// The directory of the cache.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    fn open(dir: &Path, max_bytes: u64) -> io::Result<Self> {
        make_private(dir)?;
        let dir = fs::canonicalize(dir)?;
        let metadata = fs::symlink_metadata(&dir)?;
        if metadata.uid() != uid() || metadata.mode() & ACCESS_BY_OTHERS != 0 {
            return Err(io::Error::other("others may read or write it"));
        }
        for parent in dir.ancestors().skip(1) {
            let metadata = fs::symlink_metadata(parent)?;
            let is_ours = metadata.uid() == uid() || metadata.uid() == 0;
            // In a sticky directory, others cannot replace this user's files.
            let is_closed =
                metadata.mode() & WRITE_BY_OTHERS == 0 || metadata.mode() & STICKY_BIT != 0;
            if !is_ours || !is_closed {
                let parent = parent.display();
                return Err(io::Error::other(format!("others may write to {parent}")));
            }
        }
        Ok(Self { dir, max_bytes })
    }

    /// Copies the entries of a module into `compiled`, the private directory of a run. Returns whether there were any.
    pub(crate) fn fetch(&self, module: &Path, compiled: &Path) -> bool {
        let fetch = || -> io::Result<bool> {
            let digest = copy_and_hash(&mut File::open(module)?, &mut io::sink())?;
            let mut is_fetched = false;
            for (name, path) in self.entries()? {
                if let Some(entry) =
                    CachedModuleName::parse(&name).filter(|entry| entry.module == digest)
                {
                    is_fetched |= fetch_entry(&path, &entry, compiled)?;
                }
            }
            Ok(is_fetched)
        };
        let is_fetched = fetch();
        if let Err(reason) = &is_fetched {
            tracing::info!(module = %module.display(), %reason, "no kept module is used");
        }
        is_fetched.unwrap_or(false)
    }

    /// Copies the functions of the last build of a module file into `functions`, a private directory of a run.
    pub(crate) fn fetch_functions(&self, module: &Path, functions: &Path) {
        let target = functions_file(functions, module);
        let fetch = || -> io::Result<()> {
            make_private(functions)?;
            for (name, path) in self.entries()? {
                if let Some((_, content)) =
                    functions_of(&name).filter(|(key, _)| is_named(&target, key))
                {
                    fetch_intact(&path, content, functions, &target)?;
                }
            }
            Ok(())
        };
        if let Err(reason) = fetch() {
            tracing::info!(module = %module.display(), %reason, "no kept functions are used");
        }
    }

    /// Stores the functions of builds, in place of those of the previous build of each module file.
    pub(crate) fn store_functions(&self, functions: &Path) {
        let store = || -> io::Result<()> {
            for (name, path) in entries(functions)? {
                let Some(key) = name.strip_suffix(FUNCTIONS_SUFFIX) else {
                    continue;
                };
                let new = self.store_file(key, FUNCTIONS_SUFFIX, &path)?;
                for (name, path) in self.entries()? {
                    let is_older = functions_of(&name).is_some_and(|(other, _)| other == key);
                    if is_older && path != new {
                        remove(&path)?;
                    }
                }
            }
            self.prune()
        };
        if let Err(reason) = store() {
            tracing::info!(%reason, "the functions of a module are not kept");
        }
    }

    /// Stores the modules that a run has compiled.
    pub(crate) fn store(&self, compiled: &Path) {
        let store = || -> io::Result<()> {
            let stored = self.entries()?;
            for (name, path) in entries(compiled)? {
                let Some(key) = name.strip_suffix(MODULE_SUFFIX) else {
                    continue;
                };
                let is_known = |(name, _): &(String, PathBuf)| {
                    name.strip_prefix(key)
                        .is_some_and(|rest| rest.starts_with('-'))
                };
                if !stored.iter().any(is_known) {
                    self.store_file(key, MODULE_SUFFIX, &path)?;
                }
            }
            self.prune()
        };
        if let Err(reason) = store() {
            tracing::info!(%reason, "a compiled module is not kept");
        }
    }

    fn store_file(&self, key: &str, suffix: &str, from: &Path) -> io::Result<PathBuf> {
        let mut partial = tempfile::Builder::new()
            .prefix(PARTIAL_PREFIX)
            .tempfile_in(&self.dir)?;
        let content = copy_and_hash(&mut File::open(from)?, partial.as_file_mut())?;
        let path = self.dir.join(format!("{key}-{content}{suffix}"));
        partial.persist(&path)?;
        Ok(path)
    }

    fn entries(&self) -> io::Result<Vec<(String, PathBuf)>> {
        entries(&self.dir)
    }
}

const MODULE_SUFFIX: &str = ".cwasm";
const FUNCTIONS_SUFFIX: &str = ".functions";
/// The prefix of a file while it is written.
const PARTIAL_PREFIX: &str = ".arriving-";
const ACCESS_BY_OTHERS: u32 = 0o077;

/// The parts of the file name of a compiled module.
struct CachedModuleName<'a> {
    module: &'a str,
    engine: &'a str,
    content: &'a str,
}

impl<'a> CachedModuleName<'a> {
    fn parse(name: &'a str) -> Option<Self> {
        let mut parts = name.strip_suffix(MODULE_SUFFIX)?.split('-');
        let (module, engine, content) = (parts.next()?, parts.next()?, parts.next()?);
        let entry = Self {
            module,
            engine,
            content,
        };
        parts.next().is_none().then_some(entry)
    }
}

/// The parts of the name of a module file's functions: the file's key, and the sha256 of the content.
fn functions_of(name: &str) -> Option<(&str, &str)> {
    name.strip_suffix(FUNCTIONS_SUFFIX)?.split_once('-')
}

fn is_named(file: &Path, key: &str) -> bool {
    file.file_stem() == Some(OsStr::new(key))
}

/// Copies an entry into the directory of a run.
fn fetch_entry(path: &Path, entry: &CachedModuleName<'_>, compiled: &Path) -> io::Result<bool> {
    let (module, engine) = (entry.module, entry.engine);
    let to = compiled.join(format!("{module}-{engine}{MODULE_SUFFIX}"));
    fetch_intact(path, entry.content, compiled, &to)
}

/// Copies a kept file if it is private and intact, and removes it otherwise. Returns whether it was copied.
fn fetch_intact(path: &Path, content: &str, dir: &Path, to: &Path) -> io::Result<bool> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let opened = OpenOptions::new().read(true).custom_flags(flags).open(path);
    let mut file = opened?;
    let metadata = file.metadata()?;
    let is_private =
        metadata.is_file() && metadata.uid() == uid() && metadata.mode() & ACCESS_BY_OTHERS == 0;
    let mut copy = tempfile::Builder::new().prefix(".kept-").tempfile_in(dir)?;
    if !is_private || copy_and_hash(&mut file, copy.as_file_mut())? != content {
        tracing::info!(entry = %path.display(), "a kept module is damaged, or others may change it: it is removed");
        fs::remove_file(path)?;
        return Ok(false);
    }
    copy.persist(to)?;
    file.set_modified(SystemTime::now())?;
    Ok(true)
}

/// Creates a directory, and its parents, for this user alone.
pub(crate) fn make_private(dir: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).recursive(true).create(dir)
}

/// Names and paths of the files in a directory that are not hidden.
fn entries(dir: &Path) -> io::Result<Vec<(String, PathBuf)>> {
    let mut entries = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        match entry.file_name().into_string() {
            Ok(name) if !name.starts_with('.') => entries.push((name, entry.path())),
            _ => {}
        }
    }
    Ok(entries)
}

/// Copies everything. Returns the sha256 of the copied bytes in hexadecimal.
fn copy_and_hash(from: &mut impl Read, to: &mut impl Write) -> io::Result<String> {
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

/// The prefix of the directories of all versions.
const VERSION_PREFIX: &str = "compiled-";
/// The longest time that writing a file takes.
const MAX_WRITE_TIME: Duration = Duration::from_secs(3600);

impl CompiledModuleCache {
    /// Removes what killed runs and other versions have left, and then the entries that were not used for the longest
    /// time.
    fn prune(&self) -> io::Result<()> {
        for leftover in self.partial_files()? {
            remove(&leftover)?;
        }
        for directory in self.other_versions()? {
            fs::remove_dir_all(directory)?;
        }
        let mut entries = Vec::new();
        for (_, path) in self.entries()? {
            let metadata = match fs::symlink_metadata(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                metadata => metadata?,
            };
            entries.push((metadata.modified()?, metadata.len(), path));
        }
        entries.sort();
        let mut bytes: u64 = entries.iter().map(|(_, bytes, _)| bytes).sum();
        for (_, size, path) in entries {
            if bytes <= self.max_bytes {
                break;
            }
            remove(&path)?;
            bytes -= size;
        }
        Ok(())
    }

    /// Partial files that are so old that their writer must have been killed.
    fn partial_files(&self) -> io::Result<Vec<PathBuf>> {
        let mut partial_files = Vec::new();
        for entry in fs::read_dir(&self.dir)? {
            let entry = entry?;
            let is_partial = entry
                .file_name()
                .to_str()
                .is_some_and(|name| name.starts_with(PARTIAL_PREFIX));
            // Fails if the file has been completed, and thereby renamed, in the meantime.
            let age = entry.metadata().and_then(|metadata| metadata.modified());
            let age = age.ok().and_then(|modified| modified.elapsed().ok());
            if is_partial && age.is_some_and(|age| age > MAX_WRITE_TIME) {
                partial_files.push(entry.path());
            }
        }
        Ok(partial_files)
    }

    /// The directories of other versions beside this one: nothing else prunes them once their program is gone.
    fn other_versions(&self) -> io::Result<Vec<PathBuf>> {
        let is_of_version = |path: &Path| {
            let name = path.file_name().and_then(OsStr::to_str);
            name.is_some_and(|name| name.starts_with(VERSION_PREFIX))
        };
        let Some(base) = self.dir.parent().filter(|_| is_of_version(&self.dir)) else {
            return Ok(Vec::new());
        };
        let mut directories = Vec::new();
        for entry in fs::read_dir(base)? {
            let entry = entry?;
            let path = entry.path();
            if entry.file_type()?.is_dir() && is_of_version(&path) && path != self.dir {
                directories.push(path);
            }
        }
        Ok(directories)
    }
}

/// Removes a file, unless another process has removed it.
fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

const COST_SUFFIX: &str = ".cost";
const FULL_BUILD_COST_SUFFIX: &str = ".full-build-cost";
/// Maximum size of the file of a cost.
const MAX_COST_FILE_BYTES: u64 = 4 << 10;

/// The cost of the compilation in which the code of a module was made.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CompileCost {
    /// Milliseconds, including the start of the compile process.
    pub(crate) millis: u64,
    /// Peak memory of the compile process in bytes.
    pub(crate) peak_memory: Option<u64>,
    /// The result of compiling the module within the limits of the smallest sidecar.
    pub(crate) in_smallest_sidecar: SmallestSidecarResult,
    /// The size of the module that was compiled.
    #[serde(default)]
    pub(crate) module_bytes: u64,
    /// Whether the cost is that of an earlier full build: this build compiled only the changed functions.
    #[serde(default)]
    pub(crate) is_of_earlier_build: bool,
}

/// The result of a compilation within the limits of the smallest sidecar.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum SmallestSidecarResult {
    /// Compiling within these limits was not tried.
    #[default]
    NotTried,
    /// The sidecar can compile the module.
    Suffices,
    /// The limit that the compilation exceeds.
    Refused(String),
}

impl CompiledModuleCache {
    /// The stored cost of compiling a module.
    pub(crate) fn cost(&self, module_digest: &str) -> Option<CompileCost> {
        self.read_cost(&format!("{module_digest}{COST_SUFFIX}"))
    }

    /// Stores the cost of compiling a module.
    pub(crate) fn store_cost(&self, module_digest: &str, cost: &CompileCost) {
        self.write_cost(&format!("{module_digest}{COST_SUFFIX}"), cost);
    }

    /// The cost of the last full build of a module file, in which every function was compiled.
    pub(crate) fn full_build_cost(&self, file: &Path) -> Option<CompileCost> {
        self.read_cost(&full_build_cost_name(file))
    }

    /// Stores the cost of a full build of a module file.
    pub(crate) fn store_full_build_cost(&self, file: &Path, cost: &CompileCost) {
        self.write_cost(&full_build_cost_name(file), cost);
    }

    fn read_cost(&self, name: &str) -> Option<CompileCost> {
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
        let path = self.dir.join(name);
        let file = OpenOptions::new().read(true).custom_flags(flags).open(path);
        let file = file.ok()?;
        let mut text = String::new();
        (&file)
            .take(MAX_COST_FILE_BYTES)
            .read_to_string(&mut text)
            .ok()?;
        // Marks the cost as used, so that it stays as long as its module. The cost is read even if the time cannot be
        // set.
        let _ = file.set_modified(SystemTime::now());
        serde_json::from_str(&text).ok()
    }

    fn write_cost(&self, name: &str, cost: &CompileCost) {
        let store = || -> io::Result<()> {
            let mut partial = tempfile::Builder::new()
                .prefix(PARTIAL_PREFIX)
                .tempfile_in(&self.dir)?;
            partial.write_all(&serde_json::to_vec(cost)?)?;
            partial.persist(self.dir.join(name))?;
            Ok(())
        };
        if let Err(reason) = store() {
            tracing::info!(%reason, "the cost of compiling a module is not kept");
        }
    }
}

fn full_build_cost_name(file: &Path) -> String {
    format!("{}{FULL_BUILD_COST_SUFFIX}", module_path_digest(file))
}

#[cfg(test)]
mod tests;
