//! Follows QEMU's log file, which virtlogd (or QEMU itself) writes, and logs its lines.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::sleep;

use super::log_lines::{self, LineSplitter};

/// The pause when there are no new lines. They need not be logged at once, and an idle launcher should stay idle.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum number of bytes that are read at once.
const CHUNK_BYTES: usize = 64 * 1024;

/// Follows the file for ever. It need not exist yet, and virtlogd may replace it.
pub(super) async fn follow(path: PathBuf) {
    let mut tail = Tail::default();
    loop {
        // This reads at most CHUNK_BYTES of a local file, which does not block for long.
        if !tail.read_more(&path, &mut log_lines::log_qemu) {
            sleep(POLL_INTERVAL).await;
        }
        tokio::task::yield_now().await;
    }
}

/// The file that is followed and the position in it.
#[derive(Debug, Default)]
struct Tail {
    /// The open file and its inode.
    file: Option<(u64, File)>,
    position: u64,
    lines: LineSplitter,
}

impl Tail {
    /// Reads more; false when there is nothing more to read now.
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
        // An error is treated like the end of the file: the path is checked again.
        let _ = file.take(CHUNK_BYTES as u64).read_to_end(&mut chunk);
        self.position += chunk.len() as u64;
        self.lines.feed(&chunk, line);
        chunk.len()
    }

    /// Opens the file at the path if it is a new file, or shorter than the position.
    fn reopen_if_replaced(&mut self, path: &Path, line: &mut impl FnMut(&str)) -> bool {
        let Ok(metadata) = fs::metadata(path) else {
            return false;
        };
        let is_same_file = self
            .file
            .as_ref()
            .is_some_and(|(inode, _)| *inode == metadata.ino());
        if is_same_file && metadata.len() >= self.position {
            return false;
        }
        let Ok(file) = File::open(path) else {
            return false;
        };
        self.lines.finish(line);
        self.file = Some((metadata.ino(), file));
        self.position = 0;
        true
    }
}

#[cfg(test)]
mod tests {

    use std::io::Write;

    use super::*;

    #[test]
    fn every_line_of_a_late_growing_or_replaced_file_is_read_once() {
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
