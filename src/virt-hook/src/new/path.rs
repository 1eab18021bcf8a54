//! Whether a Makefile finds this program.

use std::env;
use std::ffi::OsStr;
use std::path::PathBuf;

use rustix::fs::{Access, access};

/// What Makefiles of new projects call it.
const NAME: &str = "virt-hook";

/// This program's place, when a shell would not find it by its name.
pub(super) fn to_say() -> Option<PathBuf> {
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
    fn what_cannot_be_run_is_not_found() {
        let place = tempfile::tempdir().unwrap();
        let searched = env::join_paths(["/nonexistent".as_ref(), place.path()]).unwrap();
        assert!(!found_in(&searched));
        let program = place.path().join(NAME);
        std::fs::write(&program, "").unwrap();
        assert!(!found_in(&searched), "it is not executable");
        std::fs::remove_file(&program).unwrap();
        std::os::unix::fs::symlink("/bin/true", &program).unwrap();
        assert!(found_in(&searched));
    }
}
