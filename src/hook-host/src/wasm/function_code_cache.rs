//! The machine code of single functions, kept for the next compilation of the same module file.
//!
//! Between two builds of a hook most functions stay as they are; of a hook in Python only data changes. Cranelift names a
//! function by a sha256 of everything that shapes its code, and takes the code from here if it is known. A file has the
//! functions of the last compilation of one module file, so that it does not grow, and no module gets the code of another
//! one. It is for the machines of authors: launchers and `virt-hook serve` compile without it.

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

/// The largest file in bytes.
const MAX_BYTES: u64 = 256 << 20;
/// What Cranelift names a function by, in bytes.
const KEY: usize = 32;
/// Before each code: its length as a little-endian number.
const LENGTH: usize = 4;

type Key = [u8; KEY];

/// The path of the file with the functions of a module file. `dir` is private, like that of artifacts.
#[must_use]
pub fn functions_file(dir: &Path, module: &Path) -> PathBuf {
    let whole = fs::canonicalize(module).unwrap_or_else(|_| module.to_owned());
    let digest = Sha256::digest(whole.as_os_str().as_bytes());
    dir.join(format!("{digest:x}.functions"))
}

/// The files of a compilation.
pub(super) struct FunctionFiles {
    known: PathBuf,
    used: PathBuf,
}

impl FunctionFiles {
    /// The files for a module in an existing or new directory.
    pub(super) fn of(dir: &Path, module: &Path) -> io::Result<Self> {
        DirBuilder::new().mode(0o700).recursive(true).create(dir)?;
        let known = functions_file(&fs::canonicalize(dir)?, module);
        let used = known.with_extension("used");
        Ok(Self { known, used })
    }

    /// The arguments of the compile child.
    pub(super) fn encode(&self) -> [OsString; 2] {
        [self.known.clone().into(), self.used.clone().into()]
    }

    /// The files that the arguments of the compile child name, if they name any.
    pub(super) fn decode(mut arguments: impl Iterator<Item = OsString>) -> Option<Self> {
        Some(Self {
            known: arguments.next()?.into(),
            used: arguments.next()?.into(),
        })
    }

    /// Opens both files before the compile child is confined: afterwards it cannot open files.
    pub(super) fn open(&self) -> io::Result<OpenFunctionFiles> {
        let mut created = OpenOptions::new();
        created.write(true).create(true).truncate(true).mode(0o600);
        Ok(OpenFunctionFiles {
            known: File::open(&self.known).ok(),
            used: created.open(&self.used)?,
        })
    }

    /// After a successful compilation: replaces the file of known functions by the file of those that this compilation used.
    pub(super) fn commit(&self) -> io::Result<()> {
        fs::rename(&self.used, &self.known)
    }

    /// Removes what an unsuccessful compilation has left.
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

    /// An incomplete file is as good as none.
    pub(super) fn write(&self, codes: &FunctionCodes) {
        let _ = codes.write(&self.used);
    }
}

/// The codes of a compilation.
#[derive(Debug, Default)]
pub(super) struct FunctionCodes {
    bytes: Vec<u8>,
    /// Where in the bytes the code of a function is.
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
            false => index(&bytes),
        };
        // Nothing of a file that is damaged is used.
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

    /// The number of functions whose code was known.
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

/// Where the codes are; `None` if the bytes end within one.
fn index(bytes: &[u8]) -> Option<HashMap<Key, Range<usize>>> {
    let (mut known, mut at) = (HashMap::new(), 0);
    while at < bytes.len() {
        let key: Key = bytes.get(at..at + KEY)?.try_into().ok()?;
        at += KEY;
        let length: [u8; LENGTH] = bytes.get(at..at + LENGTH)?.try_into().ok()?;
        at += LENGTH;
        let code = at..at.checked_add(u32::from_le_bytes(length) as usize)?;
        at = code.end;
        if at > bytes.len() {
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    impl FunctionCodes {
        /// How many of the functions that were asked for are known, and how many are new.
        pub(in crate::wasm) fn known_and_new(&self) -> (usize, usize) {
            let known = self.reused();
            (known, self.used.lock().unwrap().len() - known)
        }

        /// What the next compilation knows.
        pub(in crate::wasm) fn reread(&self) -> Self {
            Self::read(&*written(self)).unwrap()
        }
    }

    fn written(codes: &FunctionCodes) -> Vec<u8> {
        let mut bytes = Vec::new();
        codes.write(&mut bytes).unwrap();
        bytes
    }

    fn filled() -> FunctionCodes {
        let codes = FunctionCodes::default();
        assert!(codes.get(&[1; KEY]).is_none());
        assert!(codes.insert(&[1; KEY], b"one".to_vec()));
        assert!(codes.insert(&[2; KEY], b"".to_vec()));
        codes
    }

    #[test]
    fn function_code_of_a_compilation_is_reused_by_the_next_one() {
        let codes = FunctionCodes::read(&*written(&filled())).unwrap();
        assert_eq!(codes.get(&[1; KEY]).as_deref(), Some(&b"one"[..]));
        assert!(codes.get(&[3; KEY]).is_none());
        assert!(codes.insert(&[3; KEY], b"three".to_vec()));
        // The second function is not used any more.
        let codes = FunctionCodes::read(&*written(&codes)).unwrap();
        let known = [1, 2, 3].map(|key| codes.get(&[key; KEY]).is_some());
        assert_eq!(known, [true, false, true]);
    }

    #[test]
    fn damaged_cache_file_is_ignored() {
        let bytes = written(&filled());
        for cut in 1..bytes.len() {
            let codes = FunctionCodes::read(&bytes[..cut]).unwrap();
            let is_whole = cut == KEY + LENGTH + 3;
            assert_eq!(codes.get(&[1; KEY]).is_some(), is_whole, "{cut}");
        }
        let mut wrong = bytes;
        wrong[KEY] = 0xff;
        assert!(FunctionCodes::read(&*wrong).unwrap().known.is_empty());
        assert!(!FunctionCodes::default().insert(b"short", Vec::new()));
    }

    #[test]
    fn each_module_file_has_its_own() {
        let (dir, module) = (Path::new("/cache"), Path::new("/etc/../etc/passwd"));
        let file = functions_file(dir, module);
        assert_eq!(file, functions_file(dir, Path::new("/etc/passwd")));
        assert_ne!(file, functions_file(dir, Path::new("/etc/group")));
    }
}
