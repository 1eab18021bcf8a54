//! A cache of the machine code of single functions for the next compilation of the same module file.
//!
//! Between two builds of a hook most functions do not change; of a hook in Python only data changes. Cranelift's key of
//! a function is a sha256 of everything that affects its code, and Cranelift takes the code of known keys from here. A
//! file has the functions of the last compilation of one module file, so that it does not grow and no module gets the
//! code of another module. The cache is for the machines of authors: launchers and `virt-hook serve` do not use it.

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufWriter, Read, Write};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use sha2::{Digest as _, Sha256};
use wasmtime::CacheStore;

/// Maximum size of a file in bytes.
const MAX_BYTES: u64 = 256 << 20;
/// Size of Cranelift's key of a function in bytes.
const KEY_BYTES: usize = 32;
/// Size of the little-endian length before each code in bytes.
const LENGTH_BYTES: usize = 4;

type Key = [u8; KEY_BYTES];

/// The path of the file with the functions of a module file. `dir` must be private, like the directory of artifacts.
#[must_use]
pub fn functions_file(dir: &Path, module: &Path) -> PathBuf {
    dir.join(format!("{}.functions", module_path_digest(module)))
}

/// The sha256 of the canonical path of a module file, in hexadecimal.
#[must_use]
pub fn module_path_digest(module: &Path) -> String {
    let canonical = fs::canonicalize(module).unwrap_or_else(|_| module.to_owned());
    let digest = Sha256::digest(canonical.as_os_str().as_bytes());
    format!("{digest:x}")
}

/// The paths of the files of a compilation: known functions, and the functions that this compilation uses.
pub(super) struct FunctionFiles {
    known: PathBuf,
    used: PathBuf,
}

impl FunctionFiles {
    /// The files for a module. The directory is created if it is missing.
    pub(super) fn in_directory(dir: &Path, module: &Path) -> io::Result<Self> {
        DirBuilder::new().mode(0o700).recursive(true).create(dir)?;
        let known = functions_file(&fs::canonicalize(dir)?, module);
        let used = known.with_extension("used");
        Ok(Self { known, used })
    }

    /// Encodes the paths as arguments of the compile child.
    pub(super) fn encode(&self) -> [OsString; 2] {
        [self.known.clone().into(), self.used.clone().into()]
    }

    /// Decodes the paths from arguments of the compile child; `None` if there are none.
    pub(super) fn decode(mut arguments: impl Iterator<Item = OsString>) -> Option<Self> {
        Some(Self {
            known: arguments.next()?.into(),
            used: arguments.next()?.into(),
        })
    }

    /// Opens both files. The compile child does this before it is confined, because it cannot open files afterwards.
    pub(super) fn open(&self) -> io::Result<OpenFunctionFiles> {
        let mut created = OpenOptions::new();
        created.write(true).create(true).truncate(true).mode(0o600);
        Ok(OpenFunctionFiles {
            known: File::open(&self.known).ok(),
            used: created.open(&self.used)?,
        })
    }

    /// Replaces the file of known functions by the file of the functions that a successful compilation used.
    pub(super) fn commit(&self) -> io::Result<()> {
        fs::rename(&self.used, &self.known)
    }

    /// Removes the file of an unsuccessful compilation.
    pub(super) fn discard(&self) {
        let _ = fs::remove_file(&self.used);
    }
}

/// The open files of a compilation.
pub(super) struct OpenFunctionFiles {
    known: Option<File>,
    used: File,
}

impl OpenFunctionFiles {
    pub(super) fn read(&self) -> FunctionCodes {
        let read = self
            .known
            .as_ref()
            .and_then(|file| FunctionCodes::read(file).ok());
        read.unwrap_or_default()
    }

    /// Writes the used functions. Errors are ignored, because an incomplete file is read like a missing one.
    pub(super) fn write(&self, codes: &FunctionCodes) {
        let _ = codes.write(&self.used);
    }
}

/// The machine code of the functions of a compilation.
#[derive(Debug, Default)]
pub(super) struct FunctionCodes {
    bytes: Vec<u8>,
    /// The ranges in `bytes` with the code of the known functions.
    known: HashMap<Key, Range<usize>>,
    used: Mutex<BTreeMap<Key, UsedCode>>,
}

#[derive(Debug)]
enum UsedCode {
    Known(Range<usize>),
    New(Vec<u8>),
}

impl FunctionCodes {
    fn read(file: impl Read) -> io::Result<Self> {
        let mut bytes = Vec::new();
        file.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
        let known = match bytes.len() as u64 > MAX_BYTES {
            true => None,
            false => index_codes(&bytes),
        };
        // A damaged file is ignored as a whole.
        Ok(known.map_or_else(Self::default, |known| Self {
            known,
            bytes,
            used: Mutex::default(),
        }))
    }

    fn write(&self, file: impl Write) -> io::Result<()> {
        let mut file = BufWriter::new(file);
        let used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        for (key, code) in &*used {
            let code = match code {
                UsedCode::Known(range) => &self.bytes[range.clone()],
                UsedCode::New(code) => code,
            };
            let length = u32::try_from(code.len()).map_err(io::Error::other)?;
            file.write_all(key)?;
            file.write_all(&length.to_le_bytes())?;
            file.write_all(code)?;
        }
        file.flush()
    }

    /// The number of used functions whose code was known.
    pub(super) fn reused(&self) -> usize {
        let used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let codes = used.values();
        codes
            .filter(|code| matches!(code, UsedCode::Known(_)))
            .count()
    }

    fn add(&self, key: Key, code: UsedCode) {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        used.insert(key, code);
    }
}

/// Finds the code of each function in the bytes of a file; `None` if the bytes end within an entry.
fn index_codes(bytes: &[u8]) -> Option<HashMap<Key, Range<usize>>> {
    let (mut known, mut offset) = (HashMap::new(), 0);
    while offset < bytes.len() {
        let key: Key = bytes.get(offset..offset + KEY_BYTES)?.try_into().ok()?;
        offset += KEY_BYTES;
        let length: [u8; LENGTH_BYTES] =
            bytes.get(offset..offset + LENGTH_BYTES)?.try_into().ok()?;
        offset += LENGTH_BYTES;
        let code = offset..offset.checked_add(u32::from_le_bytes(length) as usize)?;
        offset = code.end;
        if offset > bytes.len() {
            return None;
        }
        known.insert(key, code);
    }
    Some(known)
}

impl CacheStore for FunctionCodes {
    fn get(&self, key: &[u8]) -> Option<Cow<'_, [u8]>> {
        let key = Key::try_from(key).ok()?;
        let range = self.known.get(&key)?.clone();
        self.add(key, UsedCode::Known(range.clone()));
        Some(Cow::Borrowed(&self.bytes[range]))
    }

    fn insert(&self, key: &[u8], value: Vec<u8>) -> bool {
        let Ok(key) = Key::try_from(key) else {
            return false;
        };
        self.add(key, UsedCode::New(value));
        true
    }
}
