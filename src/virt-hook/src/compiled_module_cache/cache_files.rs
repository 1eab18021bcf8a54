//! The files of the cache: their names, and copies of those that are private and intact.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::OFlags;
use sha2::{Digest, Sha256};

pub(super) const MODULE_SUFFIX: &str = ".cwasm";
pub(super) const FUNCTIONS_SUFFIX: &str = ".functions";
/// The prefix of a file while it is written.
pub(super) const PARTIAL_PREFIX: &str = ".arriving-";
pub(super) const ACCESS_BY_OTHERS: u32 = 0o077;

/// The parts of the file name of a compiled module.
pub(super) struct CachedModuleName<'a> {
    pub(super) module: &'a str,
    pub(super) engine: &'a str,
    pub(super) content: &'a str,
}

impl<'a> CachedModuleName<'a> {
    pub(super) fn parse(name: &'a str) -> Option<Self> {
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
pub(super) fn functions_of(name: &str) -> Option<(&str, &str)> {
    name.strip_suffix(FUNCTIONS_SUFFIX)?.split_once('-')
}

pub(super) fn is_named(file: &Path, key: &str) -> bool {
    file.file_stem() == Some(OsStr::new(key))
}

/// Copies an entry into the directory of a run.
pub(super) fn fetch_entry(
    path: &Path,
    entry: &CachedModuleName<'_>,
    compiled: &Path,
) -> io::Result<bool> {
    let (module, engine) = (entry.module, entry.engine);
    let to = compiled.join(format!("{module}-{engine}{MODULE_SUFFIX}"));
    fetch_intact(path, entry.content, compiled, &to)
}

/// Copies a kept file if it is private and intact, and removes it otherwise. Returns whether it was copied.
pub(super) fn fetch_intact(path: &Path, content: &str, dir: &Path, to: &Path) -> io::Result<bool> {
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
pub(super) fn entries(dir: &Path) -> io::Result<Vec<(String, PathBuf)>> {
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
pub(super) fn copy_and_hash(from: &mut impl Read, to: &mut impl Write) -> io::Result<String> {
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

pub(super) fn uid() -> u32 {
    rustix::process::geteuid().as_raw()
}
