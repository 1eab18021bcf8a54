//! Whether `PATH` finds this program.

use std::env;
use std::ffi::OsStr;
use std::path::PathBuf;

use rustix::fs::{Access, access};

/// The name that Makefiles of new projects use.
const NAME: &str = "virt-hook";

/// The path of this program, unless `PATH` finds it.
pub(super) fn unless_in_path() -> Option<PathBuf> {
    let searched = env::var_os("PATH").unwrap_or_default();
    if found_in(&searched) {
        return None;
    }
    env::current_exe().ok()
}

fn found_in(searched: &OsStr) -> bool {
    env::split_paths(searched)
        .map(|directory| directory.join(NAME))
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
        assert!(!found_in(&searched));
        let program = temp_dir.path().join(NAME);
        std::fs::write(&program, "").unwrap();
        assert!(!found_in(&searched), "it is not executable");
        std::fs::remove_file(&program).unwrap();
        std::os::unix::fs::symlink("/bin/true", &program).unwrap();
        assert!(found_in(&searched));
    }
}
