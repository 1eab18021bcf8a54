//! Appends to a log file and rotates it, with virtlogd's limits.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// virtlogd's defaults: NAME becomes NAME.0 when it grows beyond this size, NAME.0 becomes NAME.1, and so on.
const LARGEST: u64 = 2 << 20;
const BACKUPS: u32 = 3;
const MODE: u32 = 0o600;

/// A file that is appended to.
#[derive(Debug)]
pub(super) struct RotatingFileWriter {
    path: PathBuf,
    largest: u64,
}

impl RotatingFileWriter {
    pub(super) fn new(path: &Path) -> RotatingFileWriter {
        RotatingFileWriter {
            path: path.to_owned(),
            largest: LARGEST,
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Appends, to a new file when this one would grow too large. The file is opened each time: it
    /// may be moved away or removed at any moment.
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut file = self.open()?;
        if file.metadata()?.len() + bytes.len() as u64 > self.largest {
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
            .mode(MODE)
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
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn large_log_is_rotated_with_three_backups() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("serial");
        let mut file = RotatingFileWriter {
            path: path.clone(),
            largest: 8,
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
