//! Reads the virtual size from the header of a qcow2 image.

use std::io::Read;
use std::path::Path;

use crate::untrusted_file::open_image;

/// The virtual size in bytes; `None` when the file has no qcow2 header.
pub(super) fn qcow2_size(path: &Path) -> std::io::Result<Option<u64>> {
    const MAGIC: &[u8; 4] = b"QFI\xfb";
    let mut header = Vec::with_capacity(32);
    open_image(path)?.take(32).read_to_end(&mut header)?;
    let size = header.get(24..32).and_then(|bytes| bytes.try_into().ok());
    Ok(size
        .filter(|_| header.starts_with(MAGIC))
        .map(u64::from_be_bytes))
}
