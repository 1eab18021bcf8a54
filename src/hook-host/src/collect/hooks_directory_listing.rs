//! Lists the sockets and modules in the hooks directory.

#[cfg(test)]
mod tests;

use std::io;
use std::path::Path;

use cap_std::ambient_authority;
use cap_std::fs::{Dir, DirEntry, FileType, FileTypeExt, Metadata};
use rustix::fs::{StatVfsMountFlags, fstatvfs};
use sigstore_bundle::SUFFIX;

use super::hook_file::{self, HookFile, HookFileKind, HookId, file_stamp, file_version};
use crate::policy::HOOK_YAML;
use crate::printable::{MAX_MESSAGE, is_printable, printable};

/// The content of the hooks directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct HooksListing {
    pub(super) hooks: Vec<HookFile>,
    /// All sub-directories, with or without hooks in them.
    pub(super) directories: Vec<String>,
    /// Modules that are symbolic links without a target.
    pub(super) dangling: Vec<HookId>,
    /// Files that look like hooks and cannot be used, with the reason. Only standing hooks fail because of them: of the
    /// counted hooks, one is missing then.
    pub(super) unusable: Vec<String>,
}

/// The hooks directory or one of its entries cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{}: {source}", printable(path, 4096))]
pub(super) struct ScanError {
    pub(super) path: String,
    pub(super) source: io::Error,
}

/// Maximum number of entries of a directory. Other containers may fill the directory, and it is read repeatedly.
const MAX_ENTRIES: usize = 4096;
/// Maximum number of sockets and modules in all directories together.
const MAX_HOOKS: usize = 256;

/// Lists the hooks directory. A missing directory counts as empty.
pub(super) fn scan(hooks_dir: &Path) -> Result<HooksListing, ScanError> {
    let scan_error = |path: String| move |source| ScanError { path, source };
    let root = match Dir::open_ambient_dir(hooks_dir, ambient_authority()) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(HooksListing::default()),
        opened => opened.map_err(scan_error(hooks_dir.display().to_string()))?,
    };
    let mut listing = HooksListing::default();
    let entries = root
        .entries()
        .map_err(scan_error(hooks_dir.display().to_string()))?;
    for (index, entry) in entries.enumerate() {
        let name = check_entry_count(index).and_then(|()| visible_name(&entry?));
        let Some(name) = name.map_err(scan_error(hooks_dir.display().to_string()))? else {
            continue;
        };
        let path = || hooks_dir.join(&name).display().to_string();
        check_printable(&name).map_err(scan_error(path()))?;
        match root.metadata(&name) {
            Ok(metadata) if metadata.is_dir() => {}
            metadata => {
                listing
                    .unusable
                    .extend(unusable_entry(&root, &name, metadata));
                continue;
            }
        }
        match root.open_dir(&name) {
            Ok(directory) => {
                scan_directory(&directory, &name, &mut listing).map_err(scan_error(path()))?;
                listing.directories.push(name);
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(source) => return Err(scan_error(path())(source)),
        }
    }
    Ok(listing)
}

/// Why an entry that is not a directory cannot be used as a hook. `None` for other files, and for files that were
/// removed meanwhile.
fn unusable_entry(root: &Dir, name: &str, metadata: io::Result<Metadata>) -> Option<String> {
    match metadata {
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

/// The name of an entry; `None` if it is hidden. ConfigMap and Secret mounts keep their versions under hidden names.
fn visible_name(entry: &DirEntry) -> io::Result<Option<String>> {
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

/// Refuses unprintable characters in a name. Names of hooks are printed in logs, events and errors.
fn check_printable(name: &str) -> io::Result<()> {
    if name.chars().all(is_printable) {
        return Ok(());
    }
    let name = printable(name, 253);
    let reason = format!("the name \"{name}\" has characters that cannot be printed; rename it");
    Err(io::Error::new(io::ErrorKind::InvalidInput, reason))
}

fn check_entry_count(entries: usize) -> io::Result<()> {
    if entries < MAX_ENTRIES {
        return Ok(());
    }
    let reason = format!("more than {MAX_ENTRIES} entries; a directory of hooks has few");
    Err(io::Error::other(reason))
}

fn scan_directory(directory: &Dir, name: &str, listing: &mut HooksListing) -> io::Result<()> {
    let read_only =
        fstatvfs(directory).is_ok_and(|status| status.f_flag.contains(StatVfsMountFlags::RDONLY));
    // Of a broken link, the metadata are those of the link; reading the file reports the error.
    let metadata_of = |file: &str| {
        let metadata = directory.metadata(file);
        metadata.or_else(|_| directory.symlink_metadata(file)).ok()
    };
    let settings = metadata_of(HOOK_YAML);
    for (index, entry) in directory.entries()?.enumerate() {
        check_entry_count(index)?;
        let Some(file) = visible_name(&entry?)? else {
            continue;
        };
        let is_module = file.ends_with(".wasm");
        if is_module {
            check_printable(&file)?;
        }
        let id = HookId {
            directory: name.to_owned(),
            file,
        };
        let metadata = match directory.metadata(&id.file) {
            Ok(metadata) => metadata,
            Err(error) if is_module && is_link(directory, &id.file) => {
                check_link_error(&error)?;
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
        // The name of a socket is printed too. Files that are not hooks may have any name.
        check_printable(&id.file)?;
        let (mut stamp, mut age) = (file_stamp(&metadata), hook_file::age(&metadata));
        if let Some(settings) = &settings {
            stamp.settings = Some(file_version(settings));
            age = age.min(hook_file::age(settings));
        }
        if is_module && let Some(signature) = metadata_of(&format!("{}{SUFFIX}", id.file)) {
            stamp.signature = Some(file_version(&signature));
            age = age.min(hook_file::age(&signature));
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

/// Accepts the error of a link without a target, which may get one later. A link out of the directory stays an error.
fn check_link_error(error: &io::Error) -> io::Result<()> {
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
