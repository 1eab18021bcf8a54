//! Checks the magic number, the version and the section headers of a module file before it is compiled.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// `\0asm`.
const MAGIC: [u8; 4] = *b"\0asm";
/// What follows: a core module has version 1 and layer 0, a component a version of its own and layer 1.
const CORE_MODULE: [u8; 4] = [1, 0, 0, 0];
const COMPONENT: [u8; 2] = [1, 0];
/// The encoding of components that the engine reads.
const ENCODING: u16 = 13;

/// The most sections of a component. Large ones have some hundreds; a section takes two bytes, and millions of empty ones
/// take the compiler long.
const MAX_SECTIONS: usize = 100_000;
/// How much of the file is read at once.
const WINDOW: usize = 64 << 10;

/// Why a file is not a complete component.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IncompleteComponent {
    /// A directory, a device or a pipe.
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
    /// A core module, not a component.
    #[error(
        "it is a core module, not a component: build it for wasm32-wasip2, or make it a hook with \
         `virt-hook wrap`"
    )]
    CoreModule,
    /// An encoding of WebAssembly that the engine does not read.
    #[error(
        "it is WebAssembly of version {version} and layer {layer}, and components of version \
         {ENCODING} are read here: build it with tools that make those, or take a version of this \
         program that reads it"
    )]
    OtherEncoding {
        /// The version.
        version: u16,
        /// The layer; 1 is that of components.
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
        /// Offset of the section that does not fit.
        section: u64,
        /// The least size of the file, as this section tells.
        needed: u64,
    },
    /// Limit of sections, which no compiler reaches.
    #[error(
        "it has more than {MAX_SECTIONS} sections, and a hook has some hundreds: build it again"
    )]
    Sections,
}

/// Walks the section headers of a file without reading the sections.
pub(super) fn check_section_headers(
    file: &File,
    size: u64,
) -> io::Result<Option<IncompleteComponent>> {
    let mut head = [0; 8];
    let read = read_at(file, &mut head, 0)?;
    if read == 0 {
        return Ok(Some(IncompleteComponent::Empty));
    }
    let known = read.min(MAGIC.len());
    if head[..known] != MAGIC[..known] {
        let first_bytes = head[..read].escape_ascii().to_string();
        return Ok(Some(IncompleteComponent::NotWasm { first_bytes }));
    }
    if read < head.len() {
        return Ok(Some(IncompleteComponent::Truncated {
            size,
            section: 0,
            needed: 8,
        }));
    }
    if head[4..] == CORE_MODULE {
        return Ok(Some(IncompleteComponent::CoreModule));
    }
    let number = |at: usize| u16::from_le_bytes([head[at], head[at + 1]]);
    let (version, layer) = (number(4), number(6));
    if head[6..] != COMPONENT || version != ENCODING {
        return Ok(Some(IncompleteComponent::OtherEncoding { version, layer }));
    }
    sections(file, size)
}

fn sections(file: &File, size: u64) -> io::Result<Option<IncompleteComponent>> {
    let mut at = 8;
    let mut window = Window::default();
    for _ in 0..MAX_SECTIONS {
        if at >= size {
            return Ok(None);
        }
        // An id and a length of at most five bytes.
        let head = window.read(file, at, 6)?;
        let Some((length, bytes)) = leb128(head.get(1..).unwrap_or_default()) else {
            let needed = at.saturating_add(6);
            return Ok(Some(IncompleteComponent::Truncated {
                size,
                section: at,
                needed,
            }));
        };
        let needed = at + 1 + bytes + u64::from(length);
        if needed > size {
            return Ok(Some(IncompleteComponent::Truncated {
                size,
                section: at,
                needed,
            }));
        }
        at = needed;
    }
    Ok((at < size).then_some(IncompleteComponent::Sections))
}

/// The part of the file that was read last.
#[derive(Default)]
struct Window {
    start: u64,
    bytes: Vec<u8>,
}

impl Window {
    /// At most `length` bytes from `at` on; fewer at the end of the file.
    fn read(&mut self, file: &File, at: u64, length: usize) -> io::Result<&[u8]> {
        if self.after(at).len() < length {
            self.bytes.resize(WINDOW, 0);
            let read = read_at(file, &mut self.bytes, at)?;
            self.bytes.truncate(read);
            self.start = at;
        }
        let bytes = self.after(at);
        Ok(&bytes[..bytes.len().min(length)])
    }

    fn after(&self, at: u64) -> &[u8] {
        let skip = at.checked_sub(self.start);
        let skip = skip.and_then(|skip| usize::try_from(skip).ok());
        skip.and_then(|skip| self.bytes.get(skip..))
            .unwrap_or_default()
    }
}

/// A u32 and its encoded length; `None` if the encoding does not end.
fn leb128(bytes: &[u8]) -> Option<(u32, u64)> {
    let mut value = 0_u32;
    for (index, byte) in bytes.iter().enumerate().take(5) {
        value |= u32::from(byte & 0x7f).checked_shl(7 * index as u32)?;
        if byte & 0x80 == 0 {
            return Some((value, index as u64 + 1));
        }
    }
    None
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::io::Write;

    use super::*;

    fn flaw(bytes: &[u8]) -> Option<IncompleteComponent> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        check_section_headers(&file, bytes.len() as u64).unwrap()
    }

    const COMPONENT: &[u8] = b"\0asm\x0d\0\x01\0";

    #[test]
    fn too_many_sections_are_refused_by_their_number() {
        let empty = |sections| [COMPONENT, &[0, 0].repeat(sections)].concat();
        assert_eq!(flaw(&empty(MAX_SECTIONS)), None);
        assert_eq!(
            flaw(&empty(MAX_SECTIONS + 1)),
            Some(IncompleteComponent::Sections)
        );
        assert_eq!(flaw(&empty(16 << 20)), Some(IncompleteComponent::Sections));
    }

    #[test]
    fn sections_across_reads_are_found() {
        // Long, so that heads of sections lie in, before and across the parts that are read.
        for length in [0, 1, 1000, WINDOW - 20, WINDOW, 3 * WINDOW] {
            let content = vec![0xff; length];
            let encoded = [0x80, 0x80, 0x80, 0].iter().enumerate();
            let head = encoded.map(|(at, more)| ((length >> (7 * at)) & 0x7f) as u8 | more);
            let section: Vec<u8> = [0].into_iter().chain(head).chain(content).collect();
            let mut bytes = [COMPONENT, &section.repeat(200)].concat();
            assert_eq!(flaw(&bytes), None, "{length}");
            let end = bytes.len() as u64;
            bytes.push(0);
            assert!(
                matches!(flaw(&bytes), Some(IncompleteComponent::Truncated { section, .. }) if section == end),
                "{length}"
            );
        }
    }

    #[test]
    fn error_explains_what_a_non_component_file_is() {
        assert_eq!(flaw(b""), Some(IncompleteComponent::Empty));
        assert_eq!(
            flaw(b"\0asm\x01\0\0\0"),
            Some(IncompleteComponent::CoreModule)
        );
        let text = flaw(b"#!/bin/sh\n").unwrap().to_string();
        assert!(text.contains("#!/bin/s"), "{text}");
        assert!(
            flaw(b"\x7fELF\x02")
                .unwrap()
                .to_string()
                .contains("\\x7fELF")
        );
    }

    #[test]
    fn another_encoding_is_distinguished_from_a_core_module() {
        for (bytes, version, layer) in [
            (b"\0asm\x0e\0\x01\0", 14, 1),
            (b"\0asm\x02\0\0\0", 2, 0),
            (b"\0asm\x0d\0\x02\0", 13, 2),
        ] {
            assert_eq!(
                flaw(bytes),
                Some(IncompleteComponent::OtherEncoding { version, layer })
            );
        }
    }

    #[test]
    fn a_truncated_section_is_found() {
        assert_eq!(flaw(COMPONENT), None);
        assert_eq!(flaw(&[COMPONENT, &[0, 3, 1, b'a', 9]].concat()), None);
        for cut in [&[0][..], &[0, 3], &[0, 0x80], &[0, 3, 1, b'a']] {
            let bytes = [COMPONENT, cut].concat();
            assert!(
                matches!(
                    flaw(&bytes),
                    Some(IncompleteComponent::Truncated { section: 8, .. })
                ),
                "{cut:?}"
            );
        }
        assert!(matches!(
            flaw(b"\0as"),
            Some(IncompleteComponent::Truncated { needed: 8, .. })
        ));
    }
}
