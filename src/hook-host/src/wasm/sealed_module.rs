//! A sealed copy of a module file, which cannot be changed.
//!
//! A file can be overwritten between hashing and compiling, and a compiler that a hostile module has taken over can
//! report any digest. So the bytes are copied and hashed here, and only the sealed copy is compiled.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use rustix::io::Errno;
use sha2::{Digest as _, Sha256};

/// The bytes of a module in a sealed memory file. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct SealedModule {
    file: Arc<File>,
    digest: String,
}

impl SealedModule {
    /// Copies a file of at most `limit` bytes.
    pub(crate) fn copy_of(module: &File, limit: u64) -> io::Result<Self> {
        let mut file = File::from(memfd_create(
            "module",
            MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING,
        )?);
        let (mut hasher, mut buffer, mut size) = (Sha256::new(), [0; 16 << 10], 0);
        loop {
            let read = match module.read_at(&mut buffer, size) {
                Ok(0) => break,
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            size += read as u64;
            if size > limit {
                let text = format!("it grew beyond {limit} bytes while it was read");
                return Err(io::Error::other(text));
            }
            hasher.update(&buffer[..read]);
            file.write_all(&buffer[..read])?;
        }
        seal(&file)?;
        let digest = format!("{:x}", hasher.finalize());
        let file = Arc::new(file);
        Ok(Self { file, digest })
    }

    /// The bytes as a file.
    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// The sha256 in hexadecimal.
    pub(crate) fn digest(&self) -> &str {
        &self.digest
    }

    /// A copy of the bytes.
    pub(crate) fn bytes(&self) -> io::Result<Vec<u8>> {
        let size = usize::try_from(self.file.metadata()?.len()).map_err(io::Error::other)?;
        let mut bytes = vec![0; size];
        self.file.read_exact_at(&mut bytes, 0)?;
        Ok(bytes)
    }
}

/// Forbids all changes. `F_SEAL_WRITE` waits until the kernel has no other references to the pages, and fails with
/// `EBUSY` if that takes 150 ms, as memory reclaim and compaction can. `F_SEAL_FUTURE_WRITE` (Linux 5.1) does not wait,
/// and has the same effect on a file that has never been mapped.
fn seal(file: &File) -> io::Result<()> {
    let other_seals = SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL;
    match fcntl_add_seals(file, other_seals | SealFlags::FUTURE_WRITE) {
        Err(Errno::INVAL) => fcntl_add_seals(file, other_seals | SealFlags::WRITE)?,
        sealed => sealed?,
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sealed_copy_keeps_its_bytes_and_cannot_be_written() {
        let mut module = tempfile::tempfile().unwrap();
        module.write_all(&[7; 40_000]).unwrap();
        let sealed = SealedModule::copy_of(&module, 40_000).unwrap();
        module.write_all(b"more").unwrap();
        let bytes = sealed.bytes().unwrap();
        assert_eq!(bytes, [7; 40_000]);
        assert_eq!(sealed.digest(), format!("{:x}", Sha256::digest(&bytes)));
        assert!(sealed.file().write_at(b"x", 0).is_err());
        assert!(sealed.file().set_len(0).is_err());
        assert!(SealedModule::copy_of(&module, 40_000).is_err());
    }
}
