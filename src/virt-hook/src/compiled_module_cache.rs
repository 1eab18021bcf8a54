//! Compiled modules that are kept between runs, so that an unchanged module is not compiled again, and the functions of
//! the last build of each module file, so that only the changed functions of a rebuilt module are compiled.
//!
//! An entry is machine code, so it is never run from the cache. The entries of a module are copied into the private
//! directory of the run, and only if the cache is as private as that directory: it belongs to this user with mode 0700,
//! the directories above it can only be changed by this user and root, and an entry is a file of this user that nobody
//! else may read or write, with the content that its name says. Whoever can change that can change the user's
//! programs too. Anything else is compiled, as without a cache.

mod cache_files;
mod pruning;
mod stored_compile_costs;
#[cfg(test)]
mod tests;

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use hook_host::wasm::functions_file;

pub(crate) use cache_files::make_private;
use cache_files::{
    ACCESS_BY_OTHERS, CachedModuleName, FUNCTIONS_SUFFIX, MODULE_SUFFIX, PARTIAL_PREFIX,
    copy_and_hash, entries, fetch_entry, fetch_intact, functions_of, is_named, uid,
};
use pruning::remove;
pub(crate) use stored_compile_costs::{CompileCost, SmallestSidecarResult};

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
