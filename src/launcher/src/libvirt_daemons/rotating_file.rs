//! A log file that is appended to and rotated, with virtlogd's limits.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Maximum size of a file in bytes, as in virtlogd. A file NAME that would grow larger is renamed to NAME.0, NAME.0 to
/// NAME.1, and so on.
const MAX_BYTES: u64 = 2 << 20;
/// The number of older files that are kept, as in virtlogd.
const BACKUPS: u32 = 3;
const FILE_MODE: u32 = 0o600;

/// Appends to a file, and rotates it.
#[derive(Debug)]
pub(super) struct RotatingFileWriter {
    path: PathBuf,
    max_bytes: u64,
}

impl RotatingFileWriter {
    pub(super) fn new(path: &Path) -> RotatingFileWriter {
        RotatingFileWriter {
            path: path.to_owned(),
            max_bytes: MAX_BYTES,
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Appends bytes, to a new file if the current one would grow too large. The file is opened each time, since it may
    /// be renamed or removed at any time.
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut file = self.open()?;
        if file.metadata()?.len() + bytes.len() as u64 > self.max_bytes {
            self.rotate()?;
            file = self.open()?;
        }
        file.write_all(bytes)
    }

    fn open(&self) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options
            .append(true)
            .create(true)
            .mode(FILE_MODE)
            .open(&self.path)
    }

    fn rotate(&self) -> io::Result<()> {
        for number in (0..BACKUPS).rev() {
            let from = match number {
                0 => self.path.clone(),
                _ => self.backup(number - 1),
            };
            match fs::rename(from, self.backup(number)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    fn backup(&self, number: u32) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(format!(".{number}"));
        name.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_log_is_rotated_with_three_backups() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("serial");
        let mut file = RotatingFileWriter {
            path: path.clone(),
            max_bytes: 8,
        };
        for line in [
            "one\n", "two\n", "three\n", "four56\n", "five67\n", "six789\n",
        ] {
            file.write(line.as_bytes()).unwrap();
        }
        let text = |path: &Path| fs::read_to_string(path).unwrap();
        assert_eq!(text(&path), "six789\n");
        assert_eq!(text(&file.backup(0)), "five67\n");
        assert_eq!(text(&file.backup(1)), "four56\n");
        assert_eq!(text(&file.backup(2)), "three\n");
        assert!(!file.backup(3).exists());
    }
}
