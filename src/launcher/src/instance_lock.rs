//! A lock that allows only one launcher per set of directories.
//!
//! Launchers in one pod would share the directory of the command socket and libvirt's run-time directory. A launcher
//! holds an `flock` on a file in each of them from its first step to its end. The kernel releases the lock when the
//! process ends, so a killed launcher leaves none.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use crate::paths::Paths;

/// The launcher's exit code if another launcher holds the lock: the monitor then cleans nothing up, because everything
/// belongs to the other launcher (`EX_TEMPFAIL` of sysexits.h).
pub const DIRECTORIES_IN_USE: u8 = 75;

const LOCK_FILE_NAME: &str = "virt-launcher.lock";
/// Mode of the lock's file, which both root and uid 107 must be able to lock.
const LOCK_FILE_MODE: u32 = 0o666;
/// Maximum length of a process ID in bytes.
const MAX_PID_LENGTH: u64 = 16;

/// Why the directories could not be locked.
#[derive(Debug, thiserror::Error)]
pub enum InstanceLockError {
    /// Another launcher holds the lock.
    #[error(
        "another virt-launcher ({holder}) uses {directory}; end it first, or give this one other \
         directories (--kubevirt-share-dir, a mount of its own)"
    )]
    Refused {
        /// The directory that both launchers use.
        directory: PathBuf,
        /// The holder of the lock.
        holder: String,
    },
    /// The lock's file cannot be used.
    #[error("locking {path}: {source}; is the directory writable for this user?")]
    File {
        /// The lock's file.
        path: PathBuf,
        /// The file system's error.
        source: io::Error,
    },
}

/// The held lock. The launcher keeps it until it exits.
#[derive(Debug)]
pub(crate) struct InstanceLock {
    _files: Vec<File>,
}

impl InstanceLock {
    /// Locks the directories that this launcher is going to use, including libvirt's run-time directory if it starts
    /// `daemons`. Must be called before anything in them is changed.
    pub(crate) fn acquire(paths: &Paths, daemons: bool) -> Result<InstanceLock, InstanceLockError> {
        let mut files = Vec::new();
        let socket = paths.ready_socket();
        if let Some(sockets) = socket.parent() {
            files.push(lock(sockets)?);
            // Another launcher whose lock file was removed still serves its socket.
            if let Some(holder) = socket_holder(&socket) {
                return Err(InstanceLockError::Refused {
                    directory: sockets.to_owned(),
                    holder,
                });
            }
        }
        if daemons {
            files.push(lock(&paths.libvirt_run)?);
        }
        Ok(InstanceLock { _files: files })
    }
}

fn lock(directory: &Path) -> Result<File, InstanceLockError> {
    let path = directory.join(LOCK_FILE_NAME);
    let failed = |source| InstanceLockError::File {
        path: path.clone(),
        source,
    };
    fs::create_dir_all(directory).map_err(failed)?;
    let mut file = open(&path).map_err(failed)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(rustix::io::Errno::WOULDBLOCK) => {
            return Err(InstanceLockError::Refused {
                directory: directory.to_owned(),
                holder: holder(&mut file),
            });
        }
        Err(error) => return Err(failed(error.into())),
    }
    // The PID is for the error of another launcher. It is not written if the file belongs to another user and is
    // read-only.
    if let Err(error) = write_pid(&mut file) {
        tracing::debug!(path = %path.display(), %error, "the lock does not name this process");
    }
    Ok(file)
}

/// Opens or creates the lock's file. `O_CREAT` is used only for a new file, because in a directory with the sticky bit
/// the kernel can refuse it for a file of another user.
fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW.bits().cast_signed();
    let open_existing = |write| {
        let mut options = OpenOptions::new();
        options.read(true).write(write).custom_flags(flags);
        options.open(path)
    };
    match open_existing(true) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => open_existing(false),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let mut options = OpenOptions::new();
            options
                .read(true)
                .write(true)
                .create_new(true)
                .mode(LOCK_FILE_MODE);
            match options.open(path) {
                Ok(file) => {
                    // The umask may have removed the other user's permission.
                    file.set_permissions(fs::Permissions::from_mode(LOCK_FILE_MODE))?;
                    Ok(file)
                }
                // Another launcher was faster.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => open_existing(true),
                Err(error) => Err(error),
            }
        }
        result => result,
    }
}

fn write_pid(file: &mut File) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())
}

fn holder(file: &mut File) -> String {
    let mut text = String::new();
    let read = file.take(MAX_PID_LENGTH).read_to_string(&mut text);
    match read.ok().and_then(|_| text.trim().parse::<u32>().ok()) {
        Some(pid) => format!("process {pid}"),
        None => "its process id is not known".to_owned(),
    }
}

/// The process that accepts connections on a socket, if any: the file alone may be that of a dead launcher.
fn socket_holder(socket: &Path) -> Option<String> {
    let address = SocketAddrUnix::new(socket).ok()?;
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let stream =
        rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).ok()?;
    match rustix::net::connect(&stream, &address) {
        // The listener's queue of connections is full.
        Err(rustix::io::Errno::AGAIN) => Some("its process id is not known".to_owned()),
        Err(_) => None,
        Ok(()) => Some(rustix::net::sockopt::socket_peercred(&stream).map_or_else(
            |_| "its process id is not known".to_owned(),
            |peer| format!("process {}", peer.pid.as_raw_nonzero()),
        )),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    fn paths(root: &Path) -> Paths {
        Paths::kubevirt(true, "1234").below(root)
    }

    #[test]
    fn second_launcher_is_refused_until_the_first_ends() {
        let root = tempfile::tempdir().unwrap();
        let paths = paths(root.path());
        let first = InstanceLock::acquire(&paths, true).unwrap();
        let error = InstanceLock::acquire(&paths, true).unwrap_err();
        assert!(
            matches!(error, InstanceLockError::Refused { .. }),
            "{error}"
        );
        let text = error.to_string();
        let pid = format!("process {}", std::process::id());
        assert!(text.contains(&pid), "{text}");
        assert!(text.contains("var/run/kubevirt/sockets"), "{text}");
        drop(first);
        InstanceLock::acquire(&paths, true).unwrap();
    }

    #[test]
    fn libvirts_directory_is_locked_only_with_daemons() {
        let root = tempfile::tempdir().unwrap();
        let one = paths(root.path());
        let mut other = paths(root.path());
        other.share = root.path().join("other");
        let _held = InstanceLock::acquire(&one, true).unwrap();
        let error = InstanceLock::acquire(&other, true).unwrap_err().to_string();
        assert!(error.contains("run/libvirt"), "{error}");
        InstanceLock::acquire(&other, false).unwrap();
    }

    #[test]
    fn lock_file_and_socket_of_a_dead_launcher_do_not_refuse_another() {
        let root = tempfile::tempdir().unwrap();
        let paths = paths(root.path());
        let socket = paths.ready_socket();
        fs::create_dir_all(socket.parent().unwrap()).unwrap();
        fs::write(socket.with_file_name(LOCK_FILE_NAME), "4194304\n").unwrap();
        drop(UnixListener::bind(&socket).unwrap());
        InstanceLock::acquire(&paths, true).unwrap();
        assert!(socket.exists(), "nothing is removed here");
    }

    #[test]
    fn launcher_whose_lock_file_was_removed_is_found_by_its_socket() {
        let root = tempfile::tempdir().unwrap();
        let paths = paths(root.path());
        let socket = paths.ready_socket();
        fs::create_dir_all(socket.parent().unwrap()).unwrap();
        let _listener = UnixListener::bind(&socket).unwrap();
        let error = InstanceLock::acquire(&paths, true).unwrap_err();
        let pid = format!("process {}", std::process::id());
        assert!(error.to_string().contains(&pid), "{error}");
    }

    #[test]
    fn error_contains_the_path_of_a_file_in_place_of_the_lock() {
        let root = tempfile::tempdir().unwrap();
        let paths = paths(root.path());
        fs::create_dir_all(paths.share.parent().unwrap()).unwrap();
        fs::write(&paths.share, "").unwrap();
        let error = InstanceLock::acquire(&paths, true).unwrap_err();
        assert!(error.to_string().contains("virt-launcher.lock"), "{error}");
    }
}
