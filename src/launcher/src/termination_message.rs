//! The last word of a launcher that fails, where `kubectl describe pod` shows it.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;

/// The file that kubelet reads when a container has ended. It exists in every container of a pod.
const PATH: &str = "/dev/termination-log";
/// How much of it kubelet takes, in bytes.
const MAX_BYTES: usize = 4096;

/// Writes why the launcher fails. Outside of pods there is no such file, and nothing is written.
pub fn write(reason: &str) {
    // The log says it, too.
    let _ = write_to(Path::new(PATH), reason);
}

fn write_to(path: &Path, reason: &str) -> io::Result<()> {
    let end = reason.floor_char_boundary(MAX_BYTES);
    let mut file = OpenOptions::new().write(true).truncate(true).open(path)?;
    file.write_all(&reason.as_bytes()[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reason_is_written_up_to_what_kubelet_takes() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("termination-log");
        let is_missing = write_to(&path, "no pod").unwrap_err();
        assert_eq!(is_missing.kind(), io::ErrorKind::NotFound);
        assert!(!path.exists());
        std::fs::write(&path, "of an earlier container").unwrap();
        write_to(&path, "hook a is refused").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "hook a is refused");
        write_to(&path, &format!("a{}", "\u{00e9}".repeat(MAX_BYTES))).unwrap();
        assert_eq!(
            std::fs::metadata(&path).unwrap().len(),
            MAX_BYTES as u64 - 1
        );
    }
}
