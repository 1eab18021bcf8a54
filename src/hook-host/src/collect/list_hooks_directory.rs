//! Lists the hooks directory.

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;

use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

use cap_std::ambient_authority;
use cap_std::fs::{Dir, DirEntry, FileType, FileTypeExt, Metadata, MetadataExt};
use rustix::fs::{StatVfsMountFlags, fstatvfs};
use sigstore_bundle::SUFFIX;

use crate::policy::HOOK_YAML;
use crate::printable::{MAX_MESSAGE, is_printable, printable};

/// A hook's location: a sub-directory and a file in it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct HookId {
    pub(crate) directory: String,
    pub(crate) file: String,
}

impl std::fmt::Display for HookId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.directory, self.file)
    }
}

/// The kind of hook that a file stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HookFileKind {
    Socket,
    Module,
}

/// Identifies one version of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct FileStamp {
    pub(super) device: u64,
    pub(super) inode: u64,
    pub(super) size: u64,
    pub(super) modified_ns: i128,
    /// Inode, size and time of the `hook.yaml` beside the file.
    pub(super) settings: Option<(u64, u64, i128)>,
    /// The same of its signature.
    pub(super) signature: Option<(u64, u64, i128)>,
}

/// A hook's file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HookFile {
    pub(super) id: HookId,
    pub(super) kind: HookFileKind,
    pub(super) stamp: FileStamp,
    /// Time since the last change of its content.
    pub(super) age: Duration,
    /// Whether it is on a read-only mount.
    pub(super) read_only: bool,
}

/// The content of the hooks directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct HooksListing {
    pub(super) hooks: Vec<HookFile>,
    /// All sub-directories, with or without hooks in them.
    pub(super) directories: Vec<String>,
    /// Modules that are links without a target.
    pub(super) dangling: Vec<HookId>,
    /// What looks like a hook and can be none, with the reason. Counted hooks need no error for it: one is missing then.
    pub(super) unusable: Vec<String>,
}

/// The hooks directory or an entry cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{}: {source}", printable(path, 4096))]
pub(super) struct ScanError {
    pub(super) path: String,
    pub(super) source: io::Error,
}

/// The most entries of a directory: whoever shares it may have filled it, and it is read again and again.
const MAX_ENTRIES: usize = 4096;
/// The most sockets and modules of all directories.
const MAX_HOOKS: usize = 256;

/// Lists the hooks directory; a missing one is empty.
pub(super) fn scan(hooks_dir: &Path) -> Result<HooksListing, ScanError> {
    let failed = |path: String| move |source| ScanError { path, source };
    let root = match Dir::open_ambient_dir(hooks_dir, ambient_authority()) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(HooksListing::default()),
        opened => opened.map_err(failed(hooks_dir.display().to_string()))?,
    };
    let mut listing = HooksListing::default();
    let entries = root
        .entries()
        .map_err(failed(hooks_dir.display().to_string()))?;
    for (seen, entry) in entries.enumerate() {
        let name = refuse_more(seen).and_then(|()| visible(&entry?));
        let Some(name) = name.map_err(failed(hooks_dir.display().to_string()))? else {
            continue;
        };
        let path = || hooks_dir.join(&name).display().to_string();
        refuse_unprintable(&name).map_err(failed(path()))?;
        match root.metadata(&name) {
            Ok(metadata) if metadata.is_dir() => {}
            found => {
                listing.unusable.extend(no_directory(&root, &name, found));
                continue;
            }
        }
        match root.open_dir(&name) {
            Ok(directory) => {
                scan_directory(&directory, &name, &mut listing).map_err(failed(path()))?;
                listing.directories.push(name);
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(source) => return Err(failed(path())(source)),
        }
    }
    Ok(listing)
}

/// Why an entry that is not a directory may be a hook. `None` for stray files and what was removed meanwhile.
fn no_directory(root: &Dir, name: &str, found: io::Result<Metadata>) -> Option<String> {
    match found {
        Ok(_) if name.ends_with(".wasm") => Some(format!(
            "{name} is in no directory of its own, after which it would be named"
        )),
        Ok(_) => None,
        Err(error) if is_link(root, name) => Some(format!(
            "{name} is a link that cannot be followed within the directory ({error})"
        )),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => Some(format!("{name} cannot be read ({error})")),
    }
}

/// The name, unless it is hidden: ConfigMap and Secret mounts keep their versions under hidden names.
fn visible(entry: &DirEntry) -> io::Result<Option<String>> {
    let name = entry.file_name();
    if name.as_encoded_bytes().starts_with(b".") {
        return Ok(None);
    }
    name.into_string().map(Some).map_err(|name| {
        let name = printable(&name.to_string_lossy(), 253);
        let reason = format!("the name \"{name}\" is not UTF-8; rename it");
        io::Error::new(io::ErrorKind::InvalidInput, reason)
    })
}

/// Names of hooks are printed in logs, events and errors.
fn refuse_unprintable(name: &str) -> io::Result<()> {
    if name.chars().all(is_printable) {
        return Ok(());
    }
    let name = printable(name, 253);
    let reason = format!("the name \"{name}\" has characters that cannot be printed; rename it");
    Err(io::Error::new(io::ErrorKind::InvalidInput, reason))
}

fn refuse_more(entries: usize) -> io::Result<()> {
    if entries < MAX_ENTRIES {
        return Ok(());
    }
    let reason = format!("more than {MAX_ENTRIES} entries; a directory of hooks has few");
    Err(io::Error::other(reason))
}

fn scan_directory(directory: &Dir, name: &str, listing: &mut HooksListing) -> io::Result<()> {
    let read_only =
        fstatvfs(directory).is_ok_and(|status| status.f_flag.contains(StatVfsMountFlags::RDONLY));
    // A broken link counts as it is; reading the file reports the error.
    let beside = |file: &str| {
        let metadata = directory.metadata(file);
        metadata.or_else(|_| directory.symlink_metadata(file)).ok()
    };
    let settings = beside(HOOK_YAML);
    for (seen, entry) in directory.entries()?.enumerate() {
        refuse_more(seen)?;
        let Some(file) = visible(&entry?)? else {
            continue;
        };
        let is_module = file.ends_with(".wasm");
        if is_module {
            refuse_unprintable(&file)?;
        }
        let id = HookId {
            directory: name.to_owned(),
            file,
        };
        let metadata = match directory.metadata(&id.file) {
            Ok(metadata) => metadata,
            Err(error) if is_module && is_link(directory, &id.file) => {
                broken_link(&error)?;
                listing.dangling.push(id);
                continue;
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => {
                let reason = format!("{id} cannot be read ({error})");
                listing.unusable.push(printable(&reason, MAX_MESSAGE));
                continue;
            }
        };
        let Some(kind) = kind(metadata.file_type(), is_module) else {
            if is_module {
                listing.unusable.push(format!("{id} is not a regular file"));
            }
            continue;
        };
        // A sidecar's socket names the hook if its `Info` does not. Files that are no hooks may have any name.
        refuse_unprintable(&id.file)?;
        let (mut stamp, mut age) = (stamp(&metadata), age(&metadata));
        if let Some(settings) = &settings {
            stamp.settings = Some(version(settings));
            age = age.min(self::age(settings));
        }
        if is_module && let Some(signature) = beside(&format!("{}{SUFFIX}", id.file)) {
            stamp.signature = Some(version(&signature));
            age = age.min(self::age(&signature));
        }
        if listing.hooks.len() == MAX_HOOKS {
            return Err(io::Error::other(format!(
                "more than {MAX_HOOKS} sockets and modules, with those of other directories; a VM has few hooks"
            )));
        }
        listing.hooks.push(HookFile {
            id,
            kind,
            stamp,
            age,
            read_only,
        });
    }
    Ok(())
}

fn kind(file_type: FileType, is_module: bool) -> Option<HookFileKind> {
    if file_type.is_socket() {
        return Some(HookFileKind::Socket);
    }
    (is_module && file_type.is_file()).then_some(HookFileKind::Module)
}

fn is_link(directory: &Dir, file: &str) -> bool {
    directory
        .symlink_metadata(file)
        .is_ok_and(|metadata| metadata.is_symlink())
}

/// A link without a target may still get one; a link out of the directory is an error.
fn broken_link(error: &io::Error) -> io::Result<()> {
    match error.kind() {
        io::ErrorKind::NotFound => Ok(()),
        _ => Err(io::Error::new(
            error.kind(),
            format!(
                "a module there is a symbolic link that cannot be followed within the directory \
                 ({error}); put the file itself there"
            ),
        )),
    }
}

fn stamp(metadata: &Metadata) -> FileStamp {
    FileStamp {
        device: metadata.dev(),
        inode: metadata.ino(),
        size: metadata.size(),
        modified_ns: modified_ns(metadata),
        settings: None,
        signature: None,
    }
}

fn version(metadata: &Metadata) -> (u64, u64, i128) {
    (metadata.ino(), metadata.size(), modified_ns(metadata))
}

fn modified_ns(metadata: &Metadata) -> i128 {
    i128::from(metadata.mtime()) * 1_000_000_000 + i128::from(metadata.mtime_nsec())
}

fn age(metadata: &Metadata) -> Duration {
    let modified = metadata.modified().map(cap_std::time::SystemTime::into_std);
    // If the clock went backwards, the file counts as new, which only delays a verdict.
    modified
        .ok()
        .and_then(|time| SystemTime::now().duration_since(time).ok())
        .unwrap_or_default()
}
