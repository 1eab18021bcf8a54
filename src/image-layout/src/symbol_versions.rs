//! The symbol versions of shared libraries that a program needs, such as `GLIBC_2.34`.

use object::elf::{FileHeader64, VER_FLG_WEAK};
use object::read::elf::{FileHeader, SectionHeader};
use object::{Endianness, FileKind};

use crate::ImageError;

/// The newest symbol version of a library that a base has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewestVersion {
    /// `GLIBC_`, `LIBVIRT_` or `LIBVIRT_QEMU_`.
    pub prefix: &'static str,
    /// The major and minor version.
    pub version: [u32; 2],
}

/// The symbol versions that a program needs of shared libraries, sorted; none if it is static. Versions with the flag
/// `VER_FLG_WEAK` are left out, because the program starts without them.
pub fn symbol_versions(program: &[u8]) -> Result<Vec<String>, ImageError> {
    let unreadable = |reason: String| ImageError::UnreadableProgram(reason);
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
                    if symbol.vna_flags.get(endian) & VER_FLG_WEAK != 0 {
                        continue;
                    }
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

/// The first needed version that a base lacks, and the newest one of the same library that the base has. Versions of
/// libraries that `base` does not name are ignored.
#[must_use]
pub fn missing_version<'a>(
    base: &'a [NewestVersion],
    needed: &'a [String],
) -> Option<(&'a str, &'a NewestVersion)> {
    needed.iter().find_map(|version| {
        // The prefix LIBVIRT_QEMU_ is longer than LIBVIRT_: the longest prefix is the library's.
        let newest = base
            .iter()
            .filter(|newest| version.starts_with(newest.prefix))
            .max_by_key(|newest| newest.prefix.len())?;
        let missing = newest.is_older_than(version);
        missing.then_some((version.as_str(), newest))
    })
}

impl NewestVersion {
    /// Whether the base lacks this version of the library with the prefix.
    fn is_older_than(&self, needed: &str) -> bool {
        let Some(numbers) = needed.strip_prefix(self.prefix) else {
            return false;
        };
        let mut parts = numbers.split('.').map(str::parse::<u32>);
        // A version without numbers, such as GLIBC_PRIVATE, belongs to one build of the library only.
        let (Some(Ok(major)), minor) = (parts.next(), parts.next()) else {
            return true;
        };
        let minor = minor.and_then(Result::ok).unwrap_or(0);
        [major, minor] > self.version
    }
}

#[cfg(test)]
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
    fn missing_version_is_looked_up_by_the_longest_prefix() {
        let newest = |prefix, version| NewestVersion { prefix, version };
        let base = [
            newest("GLIBC_", [2, 34]),
            newest("LIBVIRT_", [11, 0]),
            newest("LIBVIRT_QEMU_", [11, 0]),
        ];
        let missing = |versions: &[&str]| {
            let needed: Vec<_> = versions.iter().map(|&version| version.to_owned()).collect();
            missing_version(&base, &needed)
                .map(|(version, newest)| (version.to_owned(), newest.prefix))
        };
        let available = [
            "GCC_4.2.0",
            "GLIBC_2.34",
            "LIBVIRT_9.0.0",
            "LIBVIRT_QEMU_0.10.0",
        ];
        assert_eq!(missing(&available), None);
        for (version, prefix) in [
            ("GLIBC_2.36", "GLIBC_"),
            ("LIBVIRT_11.2.0", "LIBVIRT_"),
            ("LIBVIRT_PRIVATE_11.0.0", "LIBVIRT_"),
            ("LIBVIRT_QEMU_12.0.0", "LIBVIRT_QEMU_"),
        ] {
            let answer = missing(&["GLIBC_2.17", version]);
            assert_eq!(answer, Some((version.to_owned(), prefix)));
        }
    }

    #[test]
    fn versions_of_a_real_program_are_read_and_damaged_programs_are_errors() {
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
