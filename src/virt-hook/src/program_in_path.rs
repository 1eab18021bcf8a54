//! Programs that `PATH` names.

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

/// The absolute path of a program. Relative directories of `PATH` are left out: they depend on where the user is, which may
/// be a stranger's checkout.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    find_in(&path(), name)
}

/// Whether the first entry of `PATH` with this name is a directory: `make` tries to run the directory, while shells and
/// this program continue the search.
pub(crate) fn is_shadowed(name: &str) -> bool {
    let path = path();
    let first = entries(&path, name).find(|entry| entry.exists());
    first.is_some_and(|first| first.is_dir())
}

fn path() -> OsString {
    env::var_os("PATH").unwrap_or_default()
}

fn find_in(path: &OsStr, name: &str) -> Option<PathBuf> {
    let mut absolute = entries(path, name).filter(|entry| entry.is_absolute());
    absolute.find(|entry| is_program(entry))
}

fn entries(path: &OsStr, name: &str) -> impl Iterator<Item = PathBuf> {
    env::split_paths(path).map(move |directory| directory.join(name))
}

fn is_program(path: &Path) -> bool {
    path.is_file() && access(path, Access::EXEC_OK).is_ok()
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn found(directories: &[&Path]) -> Option<PathBuf> {
        find_in(&env::join_paths(directories).unwrap(), "virsh")
    }

    #[test]
    fn only_a_file_that_is_executable_is_found() {
        let temp_dir = tempfile::tempdir().unwrap();
        let directory = temp_dir.path();
        let (program, other) = (directory.join("virsh"), directory.join("other"));
        let nonexistent = Path::new("/nonexistent");
        assert_eq!(found(&[nonexistent, directory]), None);
        fs::create_dir_all(other.join("virsh")).unwrap();
        fs::write(&program, "").unwrap();
        assert_eq!(found(&[directory]), None, "it is not executable");
        fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
        assert_eq!(
            found(&[nonexistent, &other, directory]),
            Some(program.clone())
        );
        fs::remove_file(&program).unwrap();
        symlink("/bin/true", &program).unwrap();
        assert_eq!(found(&[directory]), Some(program));
    }

    #[test]
    fn a_program_in_a_relative_directory_is_not_found() {
        let temp_dir = tempfile::tempdir().unwrap();
        symlink("/bin/true", temp_dir.path().join("virsh")).unwrap();
        let here = env::current_dir().unwrap();
        let up = "../".repeat(here.components().count() - 1);
        let relative = PathBuf::from(up).join(temp_dir.path().strip_prefix("/").unwrap());
        assert!(relative.join("virsh").exists());
        assert_eq!(found(&[&relative, Path::new("")]), None);
    }
}
