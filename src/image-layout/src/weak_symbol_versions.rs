//! Marks symbol versions that only weak references of a program need.
//!
//! Rust's standard library refers weakly to functions of newer glibc versions, and does without them where they are
//! missing. Linkers write such a version as a required one, and the dynamic linker of an older glibc then refuses the
//! program. With the flag `VER_FLG_WEAK` it starts the program, without the functions.

use std::collections::BTreeSet;

use object::elf::{FileHeader64, SHT_DYNSYM, STB_WEAK, VER_FLG_WEAK, VERSYM_VERSION};
use object::read::elf::{FileHeader, SectionHeader};
use object::{Endianness, FileKind};

use crate::{ImageError, NewestVersion, missing_version};

/// Sets the flag `VER_FLG_WEAK` on each version that the base lacks and that only weak references of the program need.
pub fn mark_weak_versions(program: &mut [u8], base: &[NewestVersion]) -> Result<(), ImageError> {
    if !matches!(FileKind::parse(&*program), Ok(FileKind::Elf64)) {
        return Err(ImageError::UnreadableProgram(
            "it is no 64-bit ELF program".to_owned(),
        ));
    }
    let flags = weak_version_flags(program, base).map_err(|error| {
        ImageError::UnreadableProgram(format!("its ELF sections cannot be read: {error}"))
    })?;
    for Flags { offset, content } in flags {
        if let Some(bytes) = program.get_mut(offset..offset + content.len()) {
            bytes.copy_from_slice(&content);
        }
    }
    Ok(())
}

/// New flags of a version, and their offset in the file.
struct Flags {
    offset: usize,
    content: [u8; 2],
}

fn weak_version_flags(program: &[u8], base: &[NewestVersion]) -> object::Result<Vec<Flags>> {
    let header = FileHeader64::<Endianness>::parse(program)?;
    let endian = header.endian()?;
    let sections = header.sections(endian, program)?;
    let symbols = sections.symbols(endian, program, SHT_DYNSYM)?;
    let (mut weak, mut strong) = (BTreeSet::new(), BTreeSet::new());
    for section in sections.iter() {
        let Some((indexes, _)) = section.gnu_versym(endian, program)? else {
            continue;
        };
        for (symbol, index) in symbols.iter().zip(indexes) {
            let index = index.0.get(endian) & VERSYM_VERSION;
            match symbol.st_bind() == STB_WEAK {
                true => weak.insert(index),
                false => strong.insert(index),
            };
        }
    }
    let mut changes = Vec::new();
    for section in sections.iter() {
        let Some((mut libraries, strings)) = section.gnu_verneed(endian, program)? else {
            continue;
        };
        let strings = sections.strings(endian, program, strings)?;
        while let Some((_, mut versions)) = libraries.next()? {
            while let Some(version) = versions.next()? {
                let index = version.vna_other.get(endian) & VERSYM_VERSION;
                let name = String::from_utf8_lossy(version.name(endian, strings)?).into_owned();
                let is_missing = missing_version(base, &[name]).is_some();
                if !is_missing || !weak.contains(&index) || strong.contains(&index) {
                    continue;
                }
                // `version` borrows from the program's bytes, so the distance of the addresses is the offset.
                let address = std::ptr::from_ref(&version.vna_flags).addr();
                let flags = version.vna_flags.get(endian) | VER_FLG_WEAK;
                changes.push(Flags {
                    offset: address - program.as_ptr().addr(),
                    content: match endian {
                        Endianness::Little => flags.to_le_bytes(),
                        Endianness::Big => flags.to_be_bytes(),
                    },
                });
            }
        }
    }
    Ok(changes)
}
