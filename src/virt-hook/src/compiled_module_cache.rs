//! Compiled modules that are kept between runs, so that an unchanged module is not compiled again, and the functions of the
//! last build of each module file, so that of a changed module only what changed is compiled.
//!
//! An entry is machine code, so it is never run from the cache. The entries of a module are copied into the private
//! directory of the run, and only if the cache is as private as that directory: it belongs to this user with mode 0700,
//! the directories above it can only be changed by this user and root, and an entry is a file of this user that nobody
//! else may read or write, with the content that its name says. Whoever can change that can change the user's
//! programs too. Anything else is compiled, as without a cache.

#[cfg(test)]
mod tests;

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use hook_host::wasm::functions_file;
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
const FIRST_COST: &str = ".first-cost";
const FUNCTIONS: &str = ".functions";
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
    /// Whether the smallest sidecar can compile the module.
    pub(crate) smallest_sidecar: SmallestSidecar,
    /// The size of the module that was compiled.
    #[serde(default)]
    pub(crate) module_bytes: u64,
    /// Whether the module was an earlier build of the file. Of the module itself, only the changed functions were compiled.
    #[serde(default)]
    pub(crate) is_of_earlier_build: bool,
}

/// The result of a compilation within the limits of the smallest sidecar.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum SmallestSidecar {
    /// Nobody has asked.
    #[default]
    NotTried,
    /// The sidecar can compile the module.
    Suffices,
    /// The limit that the compilation exceeds.
    Refused(String),
}

/// A private directory of entries `MODULE-ENGINE-CONTENT.cwasm`, two sha256 with the engine's key between,
/// `FILE-CONTENT.functions`, the sha256 of a path and of a content, `MODULE.cost`, and `FILE.first-cost`.
#[derive(Debug, Clone)]
pub(crate) struct CompiledModuleCache {
    dir: PathBuf,
    max_bytes: u64,
}

impl CompiledModuleCache {
    /// The user's cache below `$XDG_CACHE_HOME` or `~/.cache`; `None`, with a log line, if there can be none.
    pub(crate) fn of_user() -> Option<Self> {
        match Self::open_of_user() {
            Ok(cache) => Some(cache),
            Err(reason) => {
                tracing::info!(%reason, "compiled modules are not kept between runs");
                None
            }
        }
    }

    /// The same with the reason why there is none.
    pub(crate) fn open_of_user() -> Result<Self, String> {
        let given = |name| std::env::var_os(name).map(PathBuf::from);
        let absolute = |path: &PathBuf| path.is_absolute();
        let base = given("XDG_CACHE_HOME").filter(absolute);
        let base = base.or_else(|| Some(given("HOME").filter(absolute)?.join(".cache")));
        let base = base.ok_or("neither XDG_CACHE_HOME nor HOME is an absolute path")?;
        let dir = base.join(DIRECTORY);
        Self::open(&dir, MAX_BYTES).map_err(|error| format!("{}: {error}", dir.display()))
    }

    /// Where the entries are.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    fn open(dir: &Path, max_bytes: u64) -> io::Result<Self> {
        make_private(dir)?;
        let dir = fs::canonicalize(dir)?;
        let metadata = fs::symlink_metadata(&dir)?;
        if metadata.uid() != uid() || metadata.mode() & OTHERS != 0 {
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

    /// Copies the entries of a module into `compiled`, the private directory of a run. Returns whether there were any.
    pub(crate) fn fetch(&self, module: &Path, compiled: &Path) -> bool {
        let fetched = || -> io::Result<bool> {
            let digest = hashed(&mut File::open(module)?, &mut io::sink())?;
            let mut found = false;
            for (name, path) in self.entries()? {
                if let Some(entry) = Entry::parse(&name).filter(|entry| entry.module == digest) {
                    found |= fetch_entry(&path, &entry, compiled)?;
                }
            }
            Ok(found)
        };
        let found = fetched();
        if let Err(reason) = &found {
            tracing::info!(module = %module.display(), %reason, "nothing kept is used");
        }
        found.unwrap_or(false)
    }

    /// Copies the functions of the last build of a module file into `functions`, a private directory of a run.
    pub(crate) fn fetch_functions(&self, module: &Path, functions: &Path) {
        let wanted = functions_file(functions, module);
        let fetched = || -> io::Result<()> {
            make_private(functions)?;
            for (name, path) in self.entries()? {
                if let Some((_, content)) =
                    functions_of(&name).filter(|(key, _)| is_named(&wanted, key))
                {
                    fetch_intact(&path, content, functions, &wanted)?;
                }
            }
            Ok(())
        };
        if let Err(reason) = fetched() {
            tracing::info!(module = %module.display(), %reason, "no kept functions are used");
        }
    }

    /// Keeps the functions of builds, each instead of those of the build before.
    pub(crate) fn keep_functions(&self, functions: &Path) {
        let kept = || -> io::Result<()> {
            for (name, path) in entries(functions)? {
                let Some(key) = name.strip_suffix(FUNCTIONS) else {
                    continue;
                };
                let new = self.keep_file(key, FUNCTIONS, &path)?;
                for (name, path) in self.entries()? {
                    let is_older = functions_of(&name).is_some_and(|(other, _)| other == key);
                    if is_older && path != new {
                        remove(&path)?;
                    }
                }
            }
            self.prune()
        };
        if let Err(reason) = kept() {
            tracing::info!(%reason, "the functions of a module are not kept");
        }
    }

    /// What compiling a module cost, if that was kept.
    pub(crate) fn cost(&self, module: &str) -> Option<CompileCost> {
        self.read_cost(&format!("{module}{COST}"))
    }

    /// Keeps what compiling a module cost.
    pub(crate) fn keep_cost(&self, module: &str, cost: &CompileCost) {
        self.write_cost(&format!("{module}{COST}"), cost);
    }

    /// The cost of the last build of a module file of which every function was compiled.
    pub(crate) fn first_cost(&self, file: &Path) -> Option<CompileCost> {
        self.read_cost(&first_cost_name(file)?)
    }

    /// Keeps the cost of a build of a module file of which every function was compiled.
    pub(crate) fn keep_first_cost(&self, file: &Path, cost: &CompileCost) {
        if let Some(name) = first_cost_name(file) {
            self.write_cost(&name, cost);
        }
    }

    fn read_cost(&self, name: &str) -> Option<CompileCost> {
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
        let path = self.dir.join(name);
        let file = OpenOptions::new().read(true).custom_flags(flags).open(path);
        let file = file.ok()?;
        let mut text = String::new();
        (&file).take(MAX_COST).read_to_string(&mut text).ok()?;
        // Kept as long as its module. Who cannot set the time can still read.
        let _ = file.set_modified(SystemTime::now());
        serde_json::from_str(&text).ok()
    }

    fn write_cost(&self, name: &str, cost: &CompileCost) {
        let kept = || -> io::Result<()> {
            let mut arriving = tempfile::Builder::new()
                .prefix(ARRIVING)
                .tempfile_in(&self.dir)?;
            arriving.write_all(&serde_json::to_vec(cost)?)?;
            arriving.persist(self.dir.join(name))?;
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
                    self.keep_file(key, ENDING, &path)?;
                }
            }
            self.prune()
        };
        if let Err(reason) = kept() {
            tracing::info!(%reason, "a compiled module is not kept");
        }
    }

    fn keep_file(&self, key: &str, ending: &str, from: &Path) -> io::Result<PathBuf> {
        let mut arriving = tempfile::Builder::new()
            .prefix(ARRIVING)
            .tempfile_in(&self.dir)?;
        let content = hashed(&mut File::open(from)?, arriving.as_file_mut())?;
        let path = self.dir.join(format!("{key}-{content}{ending}"));
        arriving.persist(&path)?;
        Ok(path)
    }

    /// Removes what killed runs and other versions have left, and then the entries that were not used for the longest time.
    fn prune(&self) -> io::Result<()> {
        for leftover in self.unfinished()? {
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

/// The parts of the name of a module file's functions: the file's key, and the sha256 of the content.
fn functions_of(name: &str) -> Option<(&str, &str)> {
    name.strip_suffix(FUNCTIONS)?.split_once('-')
}

fn first_cost_name(file: &Path) -> Option<String> {
    let functions = functions_file(Path::new(""), file);
    Some(format!("{}{FIRST_COST}", functions.file_stem()?.to_str()?))
}

fn is_named(file: &Path, key: &str) -> bool {
    file.file_stem() == Some(OsStr::new(key))
}

/// Copies an entry into the directory of a run.
fn fetch_entry(path: &Path, entry: &Entry<'_>, compiled: &Path) -> io::Result<bool> {
    let (module, engine) = (entry.module, entry.engine);
    let to = compiled.join(format!("{module}-{engine}{ENDING}"));
    fetch_intact(path, entry.content, compiled, &to)
}

/// Copies a kept file if it is private and intact, and removes it otherwise. Returns whether it was copied.
fn fetch_intact(path: &Path, content: &str, dir: &Path, to: &Path) -> io::Result<bool> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let opened = OpenOptions::new().read(true).custom_flags(flags).open(path);
    let mut file = opened?;
    let metadata = file.metadata()?;
    let is_private = metadata.is_file() && metadata.uid() == uid() && metadata.mode() & OTHERS == 0;
    let mut copy = tempfile::Builder::new().prefix(".kept-").tempfile_in(dir)?;
    if !is_private || hashed(&mut file, copy.as_file_mut())? != content {
        tracing::info!(entry = %path.display(), "a kept module is damaged, or others may change it: it is removed");
        fs::remove_file(path)?;
        return Ok(false);
    }
    copy.persist(to)?;
    file.set_modified(SystemTime::now())?;
    Ok(true)
}

/// Removes a file, which another process may have removed.
fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
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
