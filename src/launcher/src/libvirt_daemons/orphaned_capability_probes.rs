//! Kills the QEMU processes that an ended libvirt daemon has started to probe QEMU's capabilities.
//!
//! These processes are daemonised and end only at the daemon's request. If their daemon was killed meanwhile, they
//! would run until the pod ends. Each has its pid file at `DIRECTORY/qmp-XXXXXX/qmp.pid`, in libvirt's directory for
//! QEMU.

use std::path::Path;

use crate::kill_by_command_line;

/// Kills all probes with a pid file below `directory`, whose daemon has ended. Blocking.
pub(super) fn kill(directory: &Path) {
    let count =
        kill_by_command_line::kill_matching(|command_line| is_probe(command_line, directory));
    if count > 0 {
        tracing::info!(
            count,
            "QEMUs that an ended libvirt daemon had started to learn their capabilities were killed"
        );
    }
}

fn is_probe(command_line: &[u8], directory: &Path) -> bool {
    let mut arguments = command_line
        .split(|byte| *byte == 0)
        .filter_map(|argument| str::from_utf8(argument).ok());
    let pid_file = arguments
        .find(|argument| *argument == "-pidfile")
        .and_then(|_| arguments.next());
    let below = pid_file.and_then(|file| Path::new(file).strip_prefix(directory).ok());
    below.and_then(Path::to_str).is_some_and(|below| {
        below.starts_with("qmp-") && below.ends_with("/qmp.pid") && below.matches('/').count() == 1
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_probes_of_the_directory_match() {
        let directory = Path::new("/var/lib/libvirt/qemu");
        let matches = |pid_file: &str| {
            let line =
                format!("/usr/bin/qemu-system-x86_64\0-S\0-pidfile\0{pid_file}\0-daemonize\0");
            is_probe(line.as_bytes(), directory)
        };
        assert!(matches("/var/lib/libvirt/qemu/qmp-a1B2c3/qmp.pid"));
        assert!(!matches("/var/lib/libvirt/other/qmp-a1B2c3/qmp.pid"));
        assert!(!matches("/var/lib/libvirt/qemu/default_vm/qmp.pid"));
        assert!(!matches("/var/lib/libvirt/qemu/qmp-a1B2c3/x/qmp.pid"));
        assert!(!is_probe(b"qemu-system-x86_64\0-pidfile", directory));
        assert!(!is_probe(b"", directory));
    }
}
