//! Whether `PATH` finds this program.

use std::env;
use std::ffi::OsStr;
use std::path::PathBuf;

use rustix::fs::{Access, access};

/// The name under which the Makefiles of new projects run this program.
const PROGRAM_NAME: &str = "virt-hook";

/// The path of this program, if it is not in `PATH` under [`PROGRAM_NAME`].
pub(super) fn own_path_unless_in_path() -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    if is_in(&path) {
        return None;
    }
    env::current_exe().ok()
}

fn is_in(path: &OsStr) -> bool {
    env::split_paths(path)
        .map(|directory| directory.join(PROGRAM_NAME))
        .any(|program| program.is_file() && access(&program, Access::EXEC_OK).is_ok())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_file_that_is_not_executable_is_not_found() {
        let temp_dir = tempfile::tempdir().unwrap();
        let searched = env::join_paths(["/nonexistent".as_ref(), temp_dir.path()]).unwrap();
        assert!(!is_in(&searched));
        let program = temp_dir.path().join(PROGRAM_NAME);
        std::fs::write(&program, "").unwrap();
        assert!(!is_in(&searched), "it is not executable");
        std::fs::remove_file(&program).unwrap();
        std::os::unix::fs::symlink("/bin/true", &program).unwrap();
        assert!(is_in(&searched));
    }
}
