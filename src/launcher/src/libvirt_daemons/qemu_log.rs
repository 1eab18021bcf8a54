//! QEMU's own log, which virtlogd (or QEMU itself) writes to a file.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::sleep;

use super::log_lines::{self, Lines};

/// Lines need not be here at once, and an idle launcher should stay idle.
const PAUSE: Duration = Duration::from_secs(1);
/// What is read in one go; a flood waits for the next one.
const CHUNK: usize = 64 * 1024;

/// Follows the file for ever: it may come late, and virtlogd may put a new one in its place.
pub(super) async fn follow(path: PathBuf) {
    let mut tail = Tail::default();
    loop {
        // One read of a local file of at most CHUNK bytes, which does not block for long.
        if !tail.read_more(&path, &mut log_lines::log_qemu) {
            sleep(PAUSE).await;
        }
        tokio::task::yield_now().await;
    }
}

/// The file that is being followed and what of it has been read.
#[derive(Debug, Default)]
struct Tail {
    file: Option<(u64, File)>,
    read: u64,
    lines: Lines,
}

impl Tail {
    /// Reads on; false when there is nothing more for now.
    fn read_more(&mut self, path: &Path, line: &mut impl FnMut(&str)) -> bool {
        let count = self.read_chunk(line);
        if count > 0 {
            return true;
        }
        self.reopen_if_replaced(path, line)
    }

    fn read_chunk(&mut self, line: &mut impl FnMut(&str)) -> usize {
        let Some((_, file)) = &mut self.file else {
            return 0;
        };
        let mut chunk = Vec::new();
        // An error is as good as an end: the next turn looks at the path again.
        let _ = file.take(CHUNK as u64).read_to_end(&mut chunk);
        self.read += chunk.len() as u64;
        self.lines.feed(&chunk, line);
        chunk.len()
    }

    /// Opens the file at the path when it is another one, or shorter than what was read of it.
    fn reopen_if_replaced(&mut self, path: &Path, line: &mut impl FnMut(&str)) -> bool {
        let Ok(there) = fs::metadata(path) else {
            return false;
        };
        let same = self
            .file
            .as_ref()
            .is_some_and(|(inode, _)| *inode == there.ino());
        if same && there.len() >= self.read {
            return false;
        }
        let Ok(file) = File::open(path) else {
            return false;
        };
        self.lines.finish(line);
        self.file = Some((there.ino(), file));
        self.read = 0;
        true
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use std::io::Write;

    use super::*;

    #[test]
    fn late_growing_and_replaced_file_is_read_once() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("vm.log");
        let mut tail = Tail::default();
        let mut lines = Vec::new();
        let mut drain = |tail: &mut Tail| {
            while tail.read_more(&path, &mut |line: &str| lines.push(line.to_owned())) {}
        };
        drain(&mut tail);
        let mut file = File::create(&path).unwrap();
        file.write_all(b"one\ntw").unwrap();
        drain(&mut tail);
        file.write_all(b"o\n").unwrap();
        drain(&mut tail);
        fs::rename(&path, directory.path().join("vm.log.0")).unwrap();
        fs::write(&path, "three\n").unwrap();
        drain(&mut tail);
        drain(&mut tail);
        assert_eq!(lines, ["one", "two", "three"]);
    }
}
