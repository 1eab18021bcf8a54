//! `virt-hook libvirt-hook`: libvirt's hook of QEMU's domains. In a launcher's pod, also under the name of KubeVirt's
//! own, `libvirt-hook-client`, it asks the launcher; elsewhere (`--hooks`) it runs modules itself.

mod domain_stdio;
mod launcher_request;
mod standalone_hooks;
mod thread_with_deadline;

use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use kubevirt_api::libvirt_migration_hook_protocol::{MIGRATED_MARKER, SOCKET};
use rustix::fs::OFlags;

pub(crate) const HELP: &str = "\
libvirt runs /etc/libvirt/hooks/qemu with these arguments. Make that file a link to this program under the
name libvirt-hook-client. On a migration's target, this program passes the domain from standard input to the
launcher, and prints the domain that the launcher returns. After a VM has migrated away, it writes a marker
file: KubeVirt then knows that the backend storage here is outdated. Other operations succeed at once.

With --hooks, on a machine without KubeVirt, this program runs the modules itself, on a domain that migrates
to this machine or is restored: libvirt accepts a hook's changes only then. Compile the modules in advance.
Example of an executable /etc/libvirt/hooks/qemu.d/50-virt-hook:
  #!/bin/sh
  exec virt-hook libvirt-hook --hooks /etc/virt-hook/hooks --policy /etc/virt-hook/policy.yaml -- \"$@\"

Exit codes:
  0  success, or nothing to do
  1  the domain is refused, or the marker file cannot be written; standard error says why, and libvirt passes
     it to the source";

/// The names under which this program is libvirt's hook, whatever its arguments are.
const NAMES: [&str; 2] = ["libvirt-hook-client", "qemu"];

/// Arguments of `virt-hook libvirt-hook`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The launcher's socket
    #[arg(long, value_name = "PATH", default_value = SOCKET)]
    socket: PathBuf,
    /// Marker file written after the VM has migrated away
    #[arg(long, value_name = "PATH", default_value = MIGRATED_MARKER)]
    marker: PathBuf,
    #[command(flatten)]
    standalone: standalone_hooks::StandaloneArguments,
    /// libvirt's arguments: domain, operation, sub-operation, extra
    #[arg(
        value_name = "ARGUMENT",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    call: Vec<String>,
}

/// Runs the hook if this program was started under one of [`NAMES`], with the arguments `DOMAIN OPERATION SUBOPERATION
/// DETAIL`.
pub(crate) fn by_program_name() -> Option<ExitCode> {
    let mut arguments = std::env::args_os();
    let program = arguments.next()?;
    let name = Path::new(&program).file_name().and_then(OsStr::to_str)?;
    if !NAMES.contains(&name) {
        return None;
    }
    let call = arguments.map(|argument| argument.to_string_lossy().into_owned());
    Some(run(&Arguments {
        socket: SOCKET.into(),
        marker: MIGRATED_MARKER.into(),
        standalone: standalone_hooks::StandaloneArguments::default(),
        call: call.collect(),
    }))
}

/// Maximum number of bytes of a reason that is printed.
const MAX_REASON: usize = 4096;

/// Runs the hook.
pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    match handle_call(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            print_reason(&reason);
            ExitCode::FAILURE
        }
    }
}

/// Prints the reason to standard error, which libvirt passes on to the migration's source.
#[allow(clippy::print_stderr, reason = "libvirt reads it")]
fn print_reason(reason: &str) {
    // The reason may contain text of a hook.
    eprintln!("virt-hook: {}", hook_host::printable(reason, MAX_REASON));
}

fn handle_call(arguments: &Arguments) -> Result<(), String> {
    let call: Vec<&str> = arguments.call.iter().map(String::as_str).collect();
    if let Some(hooks) = arguments.standalone.hooks() {
        return match call[..] {
            [_, "migrate" | "restore", "begin", ..] => hooks.pass_domain(),
            _ => Ok(()),
        };
    }
    match call[..] {
        [_, "migrate", "begin", ..] => launcher_request::pass_domain(&arguments.socket),
        [_, "release", "end", "migrated", ..] => create_marker(&arguments.marker)
            .map_err(|error| format!("marker {}: {error}", arguments.marker.display())),
        _ => Ok(()),
    }
}

/// Creates the marker, which decides which PVC with TPM and EFI state is kept after an interrupted migration. A link under
/// its name is not followed.
fn create_marker(marker: &Path) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o644);
    options.custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
    options.open(marker).map(drop)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn call(marker: &Path, words: &str) -> Result<(), String> {
        handle_call(&Arguments {
            socket: "/nonexistent/socket".into(),
            marker: marker.to_owned(),
            standalone: standalone_hooks::StandaloneArguments::default(),
            call: words.split(' ').map(str::to_owned).collect(),
        })
    }

    #[test]
    fn only_a_vm_that_migrated_away_leaves_the_marker() {
        let directory = tempfile::tempdir().unwrap();
        let marker = directory.path().join("migrated");
        for other in [
            "a prepare begin -",
            "a start begin -",
            "a started begin -",
            "a stopped end -",
            "a release end destroyed",
            "a release end",
            "a",
            "",
        ] {
            call(&marker, other).unwrap();
        }
        assert!(!marker.exists());
        for _ in 0..2 {
            call(&marker, "a release end migrated").unwrap();
        }
        let mode = std::fs::metadata(&marker).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o644);
        let (link, other) = (
            directory.path().join("link"),
            directory.path().join("other"),
        );
        std::fs::write(&other, "kept").unwrap();
        std::os::unix::fs::symlink(&other, &link).unwrap();
        assert!(call(&link, "a release end migrated").is_err());
        assert_eq!(std::fs::read(&other).unwrap(), b"kept");
        let error = call(&marker.join("x"), "a release end migrated").unwrap_err();
        assert!(error.contains("migrated/x"), "{error}");
    }

    #[test]
    fn absent_launcher_refuses_the_domain() {
        let directory = tempfile::tempdir().unwrap();
        let error = launcher_request::ask(&directory.path().join("none"), "<domain/>").unwrap_err();
        assert!(error.contains("none"), "{error}");
    }
}
