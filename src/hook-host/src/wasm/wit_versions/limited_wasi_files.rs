//! Functions of WASI's files with limits that wasmtime's own do not have.
//!
//! A granted directory may be a volume of the VM's owner, who decides what is in it. To open a FIFO blocks a thread until
//! somebody writes to the FIFO, and a directory is read as a whole, whatever its size; no deadline ends either.

use std::fs::File;
use std::sync::Arc;

use rustix::fs::{Dir, Mode, OFlags, openat};
use wasmtime::StoreContextMut;
use wasmtime::component::{Linker, Resource};
use wasmtime_wasi::filesystem::{Descriptor, WasiFilesystemView};
use wasmtime_wasi::p2::FsResult;
use wasmtime_wasi::p2::bindings::filesystem::types::{
    DescriptorFlags, DescriptorType, DirectoryEntryStream, ErrorCode, HostDescriptor, OpenFlags,
    PathFlags,
};

use crate::off_worker;
use crate::wasm::store_state::StoreState;

/// The interface as wasmtime names it. A test fails if wasmtime's version changes.
const TYPES: &str = "wasi:filesystem/types@0.2.12";

/// The most entries of a directory that a guest may list.
const MAX_ENTRIES: usize = 4096;

/// What the functions give the guest.
type Answer<T> = wasmtime::Result<(Result<T, ErrorCode>,)>;

/// Replaces the functions in a linker that has all of WASI.
pub(super) fn replace(linker: &mut Linker<StoreState>) -> wasmtime::Result<()> {
    linker.allow_shadowing(true);
    let mut types = linker.instance(TYPES)?;
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
                answer(open(state, dir, path_flags, path, open_flags, flags).await)
            })
        },
    )?;
    types.func_wrap_async(
        "[method]descriptor.read-directory",
        |mut store: StoreContextMut<'_, StoreState>, (dir,): (Resource<Descriptor>,)| {
            Box::new(async move { answer(list(store.data_mut(), dir).await) })
        },
    )?;
    linker.allow_shadowing(false);
    Ok(())
}

fn answer<T>(result: FsResult<T>) -> Answer<T> {
    Ok((match result {
        Ok(value) => Ok(value),
        Err(error) => Err(error.downcast()?),
    },))
}

/// Opens a file or directory. Whoever replaces a file between the two steps blocks a thread that only hooks with
/// directories use.
async fn open(
    state: &mut StoreState,
    dir: Resource<Descriptor>,
    path_flags: PathFlags,
    path: String,
    open_flags: OpenFlags,
    flags: DescriptorFlags,
) -> FsResult<Resource<Descriptor>> {
    let mut files = state.filesystem();
    let borrowed = Resource::new_borrow(dir.rep());
    let found = files.stat_at(borrowed, path_flags, path.clone()).await;
    let is_ordinary = |kind| {
        matches!(
            kind,
            DescriptorType::RegularFile | DescriptorType::Directory | DescriptorType::SymbolicLink
        )
    };
    if found.is_ok_and(|found| !is_ordinary(found.type_)) {
        return Err(ErrorCode::Access.into());
    }
    files
        .open_at(dir, path_flags, path, open_flags, flags)
        .await
}

/// Lists a directory that is not too large.
async fn list(
    state: &mut StoreState,
    dir: Resource<Descriptor>,
) -> FsResult<Resource<DirectoryEntryStream>> {
    let opened = match state.filesystem().table.get(&dir)? {
        Descriptor::Dir(dir) => Arc::clone(&dir.dir),
        Descriptor::File(_) => return Err(ErrorCode::NotDirectory.into()),
    };
    let counted = off_worker::run(move || entries(&opened)).await;
    let entries = counted.flatten().map_err(|_| ErrorCode::Io)?;
    if entries > MAX_ENTRIES || !state.spend_dir_entries(entries) {
        return Err(ErrorCode::InsufficientMemory.into());
    }
    state.filesystem().read_directory(dir).await
}

/// The number of a directory's entries, counted to just above the limit.
fn entries(dir: &File) -> std::io::Result<usize> {
    // wasmtime's own handle is a mere path, which cannot be read.
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = openat(dir, ".", flags, Mode::empty())?;
    let mut entries = 0;
    for entry in Dir::new(opened)?.take(MAX_ENTRIES + 3) {
        let name = entry?;
        if !matches!(name.file_name().to_bytes(), b"." | b"..") {
            entries += 1;
        }
    }
    Ok(entries)
}
