//! Replaces functions of WASI's files by ones with limits that wasmtime's functions do not have.
//!
//! A granted directory may be a volume of the VM's owner, who decides its content. Opening a FIFO blocks a thread until
//! somebody writes to it, and a directory is read completely, whatever its size. No deadline ends either operation.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt as _;
use std::sync::Arc;

use cap_std::fs::{OpenOptions, OpenOptionsExt as _};
use rustix::fs::{Mode, OFlags, openat};
use wasmtime::StoreContextMut;
use wasmtime::component::{Linker, Resource};
use wasmtime_wasi::OpenMode;
use wasmtime_wasi::filesystem::{Descriptor, Dir, File as WasiFile, WasiFilesystemView};
use wasmtime_wasi::p2::FsResult;
use wasmtime_wasi::p2::bindings::filesystem::types::{
    DescriptorFlags, DirectoryEntryStream, ErrorCode, HostDescriptor, OpenFlags, PathFlags,
};

use crate::blocking_work;
use crate::wasm::store_state::StoreState;

/// The name of the interface in wasmtime's linker. A test fails if wasmtime changes the version.
const TYPES_INTERFACE: &str = "wasi:filesystem/types@0.2.12";

/// Maximum number of entries of a directory that a guest may list.
const MAX_ENTRIES: usize = 4096;

/// The result of a function for the guest.
type GuestResult<T> = wasmtime::Result<(Result<T, ErrorCode>,)>;

/// Replaces the functions in a linker with all interfaces of WASI.
pub(super) fn replace(linker: &mut Linker<StoreState>) -> wasmtime::Result<()> {
    linker.allow_shadowing(true);
    let mut types = linker.instance(TYPES_INTERFACE)?;
    types.func_wrap_async(
        "[method]descriptor.open-at",
        |mut store: StoreContextMut<'_, StoreState>,
         (dir, path_flags, path, open_flags, flags): (
            Resource<Descriptor>,
            PathFlags,
            String,
            OpenFlags,
            DescriptorFlags,
        )| {
            Box::new(async move {
                let state = store.data_mut();
                guest_result(open_at(state, dir, path_flags, path, open_flags, flags).await)
            })
        },
    )?;
    types.func_wrap_async(
        "[method]descriptor.read-directory",
        |mut store: StoreContextMut<'_, StoreState>, (dir,): (Resource<Descriptor>,)| {
            Box::new(async move { guest_result(list_directory(store.data_mut(), dir).await) })
        },
    )?;
    linker.allow_shadowing(false);
    Ok(())
}

fn guest_result<T>(result: FsResult<T>) -> GuestResult<T> {
    Ok((match result {
        Ok(value) => Ok(value),
        Err(error) => Err(error.downcast()?),
    },))
}

/// Implements `open-at`: opens a file or directory for reading. Granted directories cannot be written.
async fn open_at(
    state: &mut StoreState,
    dir: Resource<Descriptor>,
    path_flags: PathFlags,
    path: String,
    open_flags: OpenFlags,
    flags: DescriptorFlags,
) -> FsResult<Resource<Descriptor>> {
    let files = state.filesystem();
    let (parent, perms) = match files.table.get(&dir)? {
        Descriptor::Dir(dir) => (Arc::clone(&dir.dir), dir.perms),
        Descriptor::File(_) => return Err(ErrorCode::NotDirectory.into()),
    };
    if open_flags.intersects(OpenFlags::CREATE | OpenFlags::TRUNCATE)
        || flags.contains(DescriptorFlags::WRITE)
    {
        return Err(ErrorCode::NotPermitted.into());
    }
    let sync = DescriptorFlags::FILE_INTEGRITY_SYNC
        | DescriptorFlags::DATA_INTEGRITY_SYNC
        | DescriptorFlags::REQUESTED_WRITE_SYNC;
    if flags.intersects(sync) {
        return Err(ErrorCode::Unsupported.into());
    }
    let follow = path_flags.contains(PathFlags::SYMLINK_FOLLOW);
    let opened = blocking_work::run(move || open_ordinary(&parent, &path, follow)).await;
    let opened = opened.map_err(ErrorCode::from)??;
    let descriptor = match opened {
        OrdinaryFile::Directory(dir) => {
            Descriptor::Dir(Dir::new(dir, perms, OpenMode::READ, false))
        }
        OrdinaryFile::File(_) if open_flags.contains(OpenFlags::DIRECTORY) => {
            return Err(ErrorCode::NotDirectory.into());
        }
        OrdinaryFile::File(file) => {
            Descriptor::File(WasiFile::new(file, perms, OpenMode::READ, false))
        }
    };
    Ok(files.table.push(descriptor)?)
}

/// An open regular file or directory: opening them neither blocks nor has an effect.
#[derive(Debug)]
enum OrdinaryFile {
    Directory(File),
    File(File),
}

/// Opens a regular file or directory within a directory. FIFOs, devices and sockets are refused before they are opened:
/// first the path is resolved with `O_PATH`; then the resolved file is opened if its type is permitted, so that nobody
/// can replace the file meanwhile.
fn open_ordinary(dir: &File, path: &str, follow: bool) -> Result<OrdinaryFile, ErrorCode> {
    let mut flags = OFlags::PATH;
    flags.set(OFlags::NOFOLLOW, !follow);
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(flags.bits().cast_signed());
    let dir = cap_std::fs::Dir::from_std_file(dir.try_clone()?);
    let resolved = dir.open_with(path, &options)?;
    let kind = resolved.metadata()?.file_type();
    let reopen = |flags: OFlags| {
        let path = format!("/proc/self/fd/{}", resolved.as_raw_fd());
        File::options()
            .read(true)
            .custom_flags((flags | OFlags::NONBLOCK).bits().cast_signed())
            .open(path)
    };
    if kind.is_dir() {
        Ok(OrdinaryFile::Directory(reopen(OFlags::DIRECTORY)?))
    } else if kind.is_file() {
        Ok(OrdinaryFile::File(reopen(OFlags::empty())?))
    } else if kind.is_symlink() {
        Err(ErrorCode::Loop)
    } else {
        Err(ErrorCode::Access)
    }
}

/// Implements `read-directory` for a directory that is not too large.
async fn list_directory(
    state: &mut StoreState,
    dir: Resource<Descriptor>,
) -> FsResult<Resource<DirectoryEntryStream>> {
    let opened = match state.filesystem().table.get(&dir)? {
        Descriptor::Dir(dir) => Arc::clone(&dir.dir),
        Descriptor::File(_) => return Err(ErrorCode::NotDirectory.into()),
    };
    let counted = blocking_work::run(move || count_entries(&opened)).await;
    let entries = counted.flatten().map_err(|_| ErrorCode::Io)?;
    if entries > MAX_ENTRIES || !state.spend_dir_entries(entries) {
        return Err(ErrorCode::InsufficientMemory.into());
    }
    state.filesystem().read_directory(dir).await
}

/// The number of entries of a directory, counted up to just above the limit.
fn count_entries(dir: &File) -> std::io::Result<usize> {
    // wasmtime's own handle was opened with `O_PATH`, and cannot be read.
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = openat(dir, ".", flags, Mode::empty())?;
    let mut entries = 0;
    for entry in rustix::fs::Dir::new(opened)?.take(MAX_ENTRIES + 3) {
        let name = entry?;
        if !matches!(name.file_name().to_bytes(), b"." | b"..") {
            entries += 1;
        }
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;
    use std::path::Path;

    use rustix::fs::{CWD, FileType, OFlags, fcntl_getfl, mknodat};

    use super::*;

    fn open(dir: &Path, name: &str, follow: bool) -> Result<OrdinaryFile, ErrorCode> {
        open_ordinary(&File::open(dir).unwrap(), name, follow)
    }

    /// Opening the FIFO would block for ever.
    #[test]
    fn fifos_and_sockets_are_refused_even_through_a_link() {
        let dir = tempfile::tempdir().unwrap();
        let fifo = dir.path().join("fifo");
        mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let _socket = UnixListener::bind(dir.path().join("socket")).unwrap();
        symlink("fifo", dir.path().join("link")).unwrap();
        for (name, follow) in [("fifo", false), ("socket", false), ("link", true)] {
            let error = open(dir.path(), name, follow).unwrap_err();
            assert!(matches!(error, ErrorCode::Access), "{name}: {error:?}");
        }
    }

    #[test]
    fn files_and_directories_can_be_read() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("sub")).unwrap();
        std::fs::write(dir.path().join("sub/file"), "content").unwrap();
        symlink("sub/file", dir.path().join("link")).unwrap();
        symlink("/etc/passwd", dir.path().join("out")).unwrap();
        for (name, follow) in [("sub/file", false), ("link", true)] {
            let OrdinaryFile::File(file) = open(dir.path(), name, follow).unwrap() else {
                panic!("{name} is a file");
            };
            assert_eq!(std::io::read_to_string(file).unwrap(), "content");
        }
        let OrdinaryFile::Directory(sub) = open(dir.path(), "sub", false).unwrap() else {
            panic!("it is a directory");
        };
        assert!(!fcntl_getfl(&sub).unwrap().contains(OFlags::PATH));
        assert_eq!(count_entries(&sub).unwrap(), 1);
        for (name, follow, expected) in [
            ("link", false, ErrorCode::Loop),
            ("out", true, ErrorCode::NotPermitted),
            ("../x", true, ErrorCode::NotPermitted),
            ("missing", true, ErrorCode::NoEntry),
        ] {
            let error = open(dir.path(), name, follow).unwrap_err();
            assert_eq!(format!("{error:?}"), format!("{expected:?}"), "{name}");
        }
    }
}
