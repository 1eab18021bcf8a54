//! Checks the magic number, the version and the section headers of a module file before it is compiled.

#[cfg(test)]
mod tests;

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use crate::wasm_length::leb128;

/// The magic number of WebAssembly.
const MAGIC: [u8; 4] = *b"\0asm";
/// Version and layer of a core module, after the magic number: version 1, layer 0.
const CORE_MODULE_HEADER: [u8; 4] = [1, 0, 0, 0];
/// The layer of a component, after its version: layer 1.
const COMPONENT_LAYER: [u8; 2] = [1, 0];
/// The version of the component encoding that the engine reads.
const COMPONENT_VERSION: u16 = 13;

/// Maximum number of sections of a component. Large components have some hundreds. An empty section has two bytes, and
/// the compiler would need a long time for millions of them.
const MAX_SECTIONS: usize = 100_000;
/// Number of bytes that are read at once.
const WINDOW_BYTES: usize = 64 << 10;

/// Why a file is not a complete component.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IncompleteComponent {
    /// The file is a directory, a device or a FIFO.
    #[error("it is not a regular file")]
    NoFile,
    /// The file is empty.
    #[error("it is empty: build it, or copy it, again")]
    Empty,
    /// The file is not WebAssembly.
    #[error(
        "it is not WebAssembly: it starts with \"{first_bytes}\"; a hook is the .wasm that its \
         build ends with"
    )]
    NotWasm {
        /// The first eight bytes, escaped.
        first_bytes: String,
    },
    /// The file is a core module, not a component.
    #[error(
        "it is a core module, not a component: build it for wasm32-wasip2, or make it a hook with \
         `virt-hook wrap`"
    )]
    CoreModule,
    /// The file has an encoding of WebAssembly that the engine does not read.
    #[error(
        "it is WebAssembly of version {version} and layer {layer}, and components of version \
         {COMPONENT_VERSION} are read here: build it with tools that make those, or take a version of this \
         program that reads it"
    )]
    OtherEncoding {
        /// The version.
        version: u16,
        /// The layer; 1 means a component.
        layer: u16,
    },
    /// The file ends inside a section.
    #[error(
        "it is truncated: it has {size} bytes, but the section at byte {section} needs {needed}; \
         copy it again"
    )]
    Truncated {
        /// Size of the file in bytes.
        size: u64,
        /// Offset of the section that is not complete.
        section: u64,
        /// Minimum size of the file according to the header of the section.
        needed: u64,
    },
    /// The file has more sections than any compiler writes.
    #[error(
        "it has more than {MAX_SECTIONS} sections, and a hook has some hundreds: build it again"
    )]
    Sections,
}

/// Checks the header of the file and walks its section headers without reading the sections. Returns what is wrong, if
/// anything.
pub(super) fn check_section_headers(
    file: &File,
    size: u64,
) -> io::Result<Option<IncompleteComponent>> {
    let mut header = [0; 8];
    let read = read_at(file, &mut header, 0)?;
    if read == 0 {
        return Ok(Some(IncompleteComponent::Empty));
    }
    let compared = read.min(MAGIC.len());
    if header[..compared] != MAGIC[..compared] {
        let first_bytes = header[..read].escape_ascii().to_string();
        return Ok(Some(IncompleteComponent::NotWasm { first_bytes }));
    }
    if read < header.len() {
        return Ok(Some(IncompleteComponent::Truncated {
            size,
            section: 0,
            needed: 8,
        }));
    }
    if header[4..] == CORE_MODULE_HEADER {
        return Ok(Some(IncompleteComponent::CoreModule));
    }
    let number = |at: usize| u16::from_le_bytes([header[at], header[at + 1]]);
    let (version, layer) = (number(4), number(6));
    if header[6..] != COMPONENT_LAYER || version != COMPONENT_VERSION {
        return Ok(Some(IncompleteComponent::OtherEncoding { version, layer }));
    }
    check_sections(file, size)
}

fn check_sections(file: &File, size: u64) -> io::Result<Option<IncompleteComponent>> {
    let mut offset = 8;
    let mut window = Window::default();
    for _ in 0..MAX_SECTIONS {
        if offset >= size {
            return Ok(None);
        }
        // A section header is an id and a length of at most five bytes.
        let section_header = window.read(file, offset, 6)?;
        let Some((length, bytes)) = leb128(section_header.get(1..).unwrap_or_default()) else {
            let needed = offset.saturating_add(6);
            return Ok(Some(IncompleteComponent::Truncated {
                size,
                section: offset,
                needed,
            }));
        };
        let needed = offset + 1 + bytes + u64::from(length);
        if needed > size {
            return Ok(Some(IncompleteComponent::Truncated {
                size,
                section: offset,
                needed,
            }));
        }
        offset = needed;
    }
    Ok((offset < size).then_some(IncompleteComponent::Sections))
}

/// The part of the file that was read last, so that not every header needs a system call.
#[derive(Default)]
struct Window {
    start: u64,
    bytes: Vec<u8>,
}

impl Window {
    /// Returns `length` bytes from the offset `offset` on, or fewer at the end of the file.
    fn read(&mut self, file: &File, offset: u64, length: usize) -> io::Result<&[u8]> {
        if self.bytes_from(offset).len() < length {
            self.bytes.resize(WINDOW_BYTES, 0);
            let read = read_at(file, &mut self.bytes, offset)?;
            self.bytes.truncate(read);
            self.start = offset;
        }
        let bytes = self.bytes_from(offset);
        Ok(&bytes[..bytes.len().min(length)])
    }

    /// The bytes of the window from the offset `offset` on.
    fn bytes_from(&self, offset: u64) -> &[u8] {
        let skip = offset.checked_sub(self.start);
        let skip = skip.and_then(|skip| usize::try_from(skip).ok());
        skip.and_then(|skip| self.bytes.get(skip..))
            .unwrap_or_default()
    }
}

fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut read = 0;
    while read < buffer.len() {
        match file.read_at(&mut buffer[read..], offset + read as u64) {
            Ok(0) => break,
            Ok(more) => read += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(read)
}
