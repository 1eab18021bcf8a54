//! The versions of library symbols that a program needs, such as `GLIBC_2.34`.

use object::elf::FileHeader64;
use object::read::elf::{FileHeader, SectionHeader};
use object::{Endianness, FileKind};

use crate::ImageError;

/// The newest versions that a base has, by prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewestVersion {
    /// `GLIBC_` or `LIBVIRT_`.
    pub prefix: &'static str,
    /// Its numbers.
    pub version: [u32; 2],
}

/// The symbol versions that a program needs of shared libraries, sorted; none if it is static.
pub fn symbol_versions(program: &[u8]) -> Result<Vec<String>, ImageError> {
    let unreadable = |reason: String| ImageError::Program(reason);
    if !matches!(FileKind::parse(program), Ok(FileKind::Elf64)) {
        return Err(unreadable("it is no 64-bit ELF program".to_owned()));
    }
    let read = || -> object::Result<Vec<String>> {
        let header = FileHeader64::<Endianness>::parse(program)?;
        let endian = header.endian()?;
        let sections = header.sections(endian, program)?;
        let mut versions = Vec::new();
        for section in sections.iter() {
            let Some((mut needed, strings)) = section.gnu_verneed(endian, program)? else {
                continue;
            };
            let strings = sections.strings(endian, program, strings)?;
            while let Some((_, mut symbols)) = needed.next()? {
                while let Some(symbol) = symbols.next()? {
                    let name = symbol.name(endian, strings)?;
                    versions.push(String::from_utf8_lossy(name).into_owned());
                }
            }
        }
        versions.sort();
        versions.dedup();
        Ok(versions)
    };
    read().map_err(|error| unreadable(format!("its ELF sections cannot be read: {error}")))
}

impl NewestVersion {
    /// Whether the base lacks this version. Versions of other libraries are not judged.
    #[must_use]
    pub fn is_older_than(&self, needed: &str) -> bool {
        let Some(numbers) = needed.strip_prefix(self.prefix) else {
            return false;
        };
        let mut parts = numbers.split('.').map(str::parse::<u32>);
        // A version without numbers, such as GLIBC_PRIVATE, is of one build of the library only.
        let (Some(Ok(major)), minor) = (parts.next(), parts.next()) else {
            return true;
        };
        let minor = minor.and_then(Result::ok).unwrap_or(0);
        [major, minor] > self.version
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn versions_compare_by_number() {
        let glibc = NewestVersion {
            prefix: "GLIBC_",
            version: [2, 34],
        };
        for older in [
            "GLIBC_2.34",
            "GLIBC_2.2.5",
            "GLIBC_2.9",
            "GCC_3.0",
            "LIBVIRT_12.0.0",
        ] {
            assert!(!glibc.is_older_than(older), "{older}");
        }
        for newer in ["GLIBC_2.35", "GLIBC_2.100", "GLIBC_3", "GLIBC_PRIVATE"] {
            assert!(glibc.is_older_than(newer), "{newer}");
        }
    }

    #[test]
    fn a_real_programs_versions_are_read() {
        let program = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let versions = symbol_versions(&program).unwrap();
        assert!(
            versions
                .iter()
                .any(|version| version.starts_with("GLIBC_2.")),
            "{versions:?}"
        );
        symbol_versions(b"\x7fELF").unwrap_err();
        symbol_versions(&program[..program.len() / 2]).unwrap_err();
    }
}
