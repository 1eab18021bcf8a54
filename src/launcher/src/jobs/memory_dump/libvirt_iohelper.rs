//! libvirt's I/O helper: the process that writes a memory dump to its file.
//!
//! libvirt cannot abort a memory dump, because QEMU has no command for that. But QEMU writes into a pipe which
//! `libvirt_iohelper PATH` reads. When that process ends, QEMU's next write fails; libvirt then ends the dump with an
//! error, removes the file and resumes the guest.

use std::path::Path;

use crate::kill_by_command_line;

const HELPER_PROGRAM: &str = "libvirt_iohelper";

/// Kills the helpers that write to `path`. Returns whether there was one. Blocking.
pub(super) fn kill(path: &str) -> bool {
    kill_by_command_line::kill_matching(|command_line| is_command_of_helper(command_line, path)) > 0
}

/// Whether this is the command line of the helper for `path`: `/usr/lib/libvirt/libvirt_iohelper\0PATH\01\0`.
fn is_command_of_helper(command_line: &[u8], path: &str) -> bool {
    let mut arguments = command_line.split(|byte| *byte == 0);
    let program = arguments
        .next()
        .and_then(|first| str::from_utf8(first).ok());
    let program = program.and_then(|first| Path::new(first).file_name());
    program.is_some_and(|name| name == HELPER_PROGRAM) && arguments.next() == Some(path.as_bytes())
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn only_the_io_helper_of_the_file_matches() {
        let helper = b"/usr/lib/libvirt/libvirt_iohelper\0/d/a.memory.dump\x001\0";
        assert!(is_command_of_helper(helper, "/d/a.memory.dump"));
        assert!(!is_command_of_helper(helper, "/d/b.memory.dump"));
        assert!(!is_command_of_helper(
            b"vi\0/d/a.memory.dump\0",
            "/d/a.memory.dump"
        ));
        assert!(!is_command_of_helper(b"libvirt_iohelper", ""));
        assert!(!is_command_of_helper(b"", ""));
    }

    #[test]
    fn io_helper_is_killed() {
        use std::os::unix::process::CommandExt;
        // A duration that no other test sleeps for.
        let path = "61.0625";
        let mut child = Command::new("sleep")
            .arg0("/usr/lib/libvirt/libvirt_iohelper")
            .arg(path)
            .spawn()
            .unwrap();
        assert!(!kill("61.5"));
        // The kernel shows the arguments a moment after the start.
        let deadline = Instant::now() + Duration::from_secs(20);
        while !kill(path) {
            assert!(Instant::now() < deadline, "no helper is found");
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(!child.wait().unwrap().success());
    }
}
