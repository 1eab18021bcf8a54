//! Copies the logs of QEMU and passt to standard error, since they are lost when the pod ends.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use crate::json_log_lines;

/// How many bytes from the end of each log are copied.
const MAX_BYTES: u64 = 256 * 1024;
/// The directories of QEMU's logs, of a launcher without and with root.
const QEMU_LOGS: [&str; 2] = [
    "/run/kubevirt-private/libvirt/qemu/log",
    "/var/log/libvirt/qemu",
];

/// Copies the logs, line by line, into the monitor's own log.
pub(crate) fn dump(share_dir: &Path) {
    dump_file(&share_dir.join("passt.log"));
    for path in QEMU_LOGS
        .iter()
        .flat_map(|directory| files(Path::new(directory)))
    {
        dump_file(&path);
    }
}

/// The files in a directory, sorted by path.
fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut files: Vec<_> = entries
        .map(|entry| entry.path())
        .filter(|path| path.is_file())
        .collect();
    files.sort();
    files
}

fn dump_file(path: &Path) {
    match tail(path) {
        Ok(text) => {
            json_log_lines::info(&format!("dump log file: {}", path.display()));
            text.lines().for_each(json_log_lines::info);
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => {
            json_log_lines::error(&format!("failed to read file {}: {error}", path.display()))
        }
    }
}

/// The end of a file, without an incomplete first line.
fn tail(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    let skipped = length.saturating_sub(MAX_BYTES);
    file.seek(SeekFrom::Start(skipped))?;
    let mut bytes = Vec::new();
    file.take(MAX_BYTES).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    match text.split_once('\n') {
        Some((_, whole_lines)) if skipped > 0 => Ok(whole_lines.to_owned()),
        _ => Ok(text.into_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_log_is_cut_to_its_end() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("vm.log");
        let lines: Vec<String> = (0..100_000)
            .map(|number| format!("line {number}"))
            .collect();
        fs::write(&path, lines.join("\n")).unwrap();
        let text = tail(&path).unwrap();
        assert!(text.len() as u64 <= MAX_BYTES && text.ends_with("line 99999"));
        assert!(lines.contains(&text.lines().next().unwrap().to_owned()));
        fs::write(&path, b"one\n\xff two").unwrap();
        assert_eq!(tail(&path).unwrap(), "one\n\u{fffd} two");
        assert_eq!(files(directory.path()), [path]);
        assert!(files(Path::new("/nonexistent")).is_empty());
    }
}
