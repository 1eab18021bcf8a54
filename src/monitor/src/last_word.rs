//! The reason why virt-launcher failed. It writes the reason where the kubelet reads it; the monitor repeats it as the last
//! line of standard error, which the kubelet and people read otherwise.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use crate::json_log_lines;

/// The file that the kubelet reads when a container has ended. It exists in every container of a pod.
const TERMINATION_LOG: &str = "/dev/termination-log";
/// How much of it the kubelet takes, in bytes.
const MAX_BYTES: u64 = 4096;

/// Logs the reason, if virt-launcher left one.
pub(crate) fn repeat() {
    match read(Path::new(TERMINATION_LOG)) {
        Ok(reason) if reason.is_empty() => {}
        Ok(reason) => json_log_lines::error(&reason),
        // Outside of a pod there is none.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => json_log_lines::error(&format!("{TERMINATION_LOG}: {error}")),
    }
}

/// Logs an error of the monitor that keeps virt-launcher from running, and leaves it for the kubelet.
pub(crate) fn leave(reason: &str) {
    json_log_lines::error(reason);
    let written = File::options()
        .write(true)
        .truncate(true)
        .open(TERMINATION_LOG)
        .and_then(|mut file| file.write_all(reason.as_bytes()));
    if let Err(error) = written
        && error.kind() != io::ErrorKind::NotFound
    {
        json_log_lines::error(&format!("{TERMINATION_LOG}: {error}"));
    }
}

fn read(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_BYTES).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reason_is_read_up_to_what_the_kubelet_takes() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("termination-log");
        for (content, expected) in [
            ("", String::new()),
            ("no such hook\n", "no such hook".to_owned()),
            (&"x".repeat(5000), "x".repeat(4096)),
        ] {
            std::fs::write(&path, content).unwrap();
            assert_eq!(read(&path).unwrap(), expected);
        }
        std::fs::remove_file(&path).unwrap();
        assert_eq!(read(&path).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
