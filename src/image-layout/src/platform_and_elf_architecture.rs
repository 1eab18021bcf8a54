//! The platform of an image, and the architecture of an ELF program.

use std::fmt;

use object::Endianness;
use object::elf::{EM_AARCH64, EM_X86_64, FileHeader64};
use object::read::elf::FileHeader;

use crate::ImageError;

/// The platform of an image: operating system and architecture as Go names them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Platform {
    /// `linux`.
    pub os: String,
    /// `amd64`, `arm64` or `s390x`.
    pub architecture: String,
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.os, self.architecture)
    }
}

/// The architecture of an ELF program as images name it: `amd64` or `arm64`, else `ELF machine NUMBER`.
pub fn program_architecture(program: &[u8]) -> Result<String, ImageError> {
    let header = FileHeader64::<Endianness>::parse(program);
    let machine = header.and_then(|header| Ok(header.e_machine(header.endian()?)));
    let machine = machine.map_err(|error| {
        ImageError::UnreadableProgram(format!("its ELF header cannot be read: {error}"))
    })?;
    Ok(match machine {
        EM_X86_64 => "amd64".to_owned(),
        EM_AARCH64 => "arm64".to_owned(),
        other => format!("ELF machine {other}"),
    })
}
