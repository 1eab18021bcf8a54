//! Atomic writes of output files.

use std::borrow::Cow;
use std::fs::Permissions;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::{fs, io};

use anyhow::{Context, Result, anyhow, bail};

/// The mode of a new file, of which the user's umask takes away.
const MODE: u32 = 0o666;

/// Writes a file atomically, by renaming: a launcher may be watching the directory.
///
/// The directory may be a stranger's checkout. The temporary file has a random name and is created exclusively, so that no
/// link there is followed; a link under the final name is replaced, and the file that it names stays as it is.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    write_with(path, bytes, None)
}

/// Like [`write()`], for a file that exists. It keeps its mode. A link is refused: the file that it names would stay as it is.
pub(crate) fn rewrite(path: &Path, bytes: &[u8]) -> Result<()> {
    refuse_link(path)?;
    let metadata = path.metadata();
    let metadata = metadata.with_context(|| path.display().to_string())?;
    write_with(path, bytes, Some(metadata.permissions()))
}

/// The error that a file cannot be written again, because the path is a symbolic link.
pub(crate) fn refuse_link(path: &Path) -> Result<()> {
    match fs::read_link(path) {
        Ok(target) => bail!(
            "{}: it is a symbolic link to {}, and would be replaced: name the file itself",
            path.display(),
            target.display()
        ),
        Err(_) => Ok(()),
    }
}

fn write_with(path: &Path, bytes: &[u8], permissions: Option<Permissions>) -> Result<()> {
    let name = path
        .file_name()
        .ok_or_else(|| anyhow!("{}: it names no file", path.display()))?;
    let directory = path.parent().filter(|parent| *parent != Path::new(""));
    let directory = directory.unwrap_or(Path::new("."));
    let prefix = format!(".{}.", name.to_string_lossy());
    let written = write_and_rename(path, directory, &prefix, bytes, permissions);
    written.with_context(|| format!("writing {}", path.display()))
}

fn write_and_rename(
    path: &Path,
    directory: &Path,
    prefix: &str,
    bytes: &[u8],
    permissions: Option<Permissions>,
) -> io::Result<()> {
    // It is removed on drop if it has not been renamed.
    let mut file = tempfile::Builder::new()
        .prefix(prefix)
        .suffix(".arriving")
        .permissions(Permissions::from_mode(MODE))
        .tempfile_in(directory)?;
    file.write_all(bytes)?;
    if let Some(permissions) = permissions {
        file.as_file().set_permissions(permissions)?;
    }
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

/// Quotes a path for a shell.
pub(crate) fn shell_quoted(path: &Path) -> String {
    let text = path.display().to_string();
    shlex::try_quote(&text).map_or_else(|_| text.clone(), Cow::into_owned)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_link_under_the_final_or_a_temporary_name_is_not_followed() {
        let temp_dir = tempfile::tempdir().unwrap();
        let path = |name: &str| temp_dir.path().join(name);
        fs::write(path("victim"), "precious").unwrap();
        for name in ["hook.wasm", ".hook.wasm.arriving"] {
            symlink(path("victim"), path(name)).unwrap();
        }
        write(&path("hook.wasm"), b"new").unwrap();
        assert_eq!(fs::read(path("victim")).unwrap(), b"precious");
        assert_eq!(fs::read(path("hook.wasm")).unwrap(), b"new");
        assert!(path("hook.wasm").symlink_metadata().unwrap().is_file());
        assert_eq!(fs::read_dir(temp_dir.path()).unwrap().count(), 3);
    }

    #[test]
    fn a_failed_write_leaves_nothing_behind() {
        let temp_dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(temp_dir.path().join("directory/in-use")).unwrap();
        let error = write(&temp_dir.path().join("directory"), b"x").unwrap_err();
        assert!(error.to_string().contains("writing "), "{error}");
        assert_eq!(fs::read_dir(temp_dir.path()).unwrap().count(), 1);
        assert!(write(Path::new("/"), b"x").is_err());
        assert!(write(&temp_dir.path().join("missing/file"), b"x").is_err());
    }

    #[test]
    fn a_new_file_has_the_mode_that_the_umask_leaves() {
        let temp_dir = tempfile::tempdir().unwrap();
        let path = |name: &str| temp_dir.path().join(name);
        fs::write(path("reference"), "").unwrap();
        write(&path("file"), b"").unwrap();
        let mode = |name: &str| path(name).metadata().unwrap().permissions().mode();
        assert_eq!(mode("file"), mode("reference"));
    }

    #[test]
    fn a_file_that_is_written_again_keeps_its_mode() {
        let temp_dir = tempfile::tempdir().unwrap();
        let path = |name: &str| temp_dir.path().join(name);
        for mode in [0o600, 0o640, 0o777] {
            fs::write(path("file"), "old").unwrap();
            fs::set_permissions(path("file"), Permissions::from_mode(mode)).unwrap();
            rewrite(&path("file"), b"new").unwrap();
            assert_eq!(fs::read(path("file")).unwrap(), b"new");
            let written = path("file").metadata().unwrap().permissions().mode();
            assert_eq!(written & 0o7777, mode);
        }
        symlink("file", path("link")).unwrap();
        let error = rewrite(&path("link"), b"other").unwrap_err().to_string();
        assert!(error.contains("a symbolic link to file"), "{error}");
        assert_eq!(fs::read(path("file")).unwrap(), b"new");
        assert!(path("link").is_symlink());
        assert!(rewrite(&path("missing"), b"x").is_err());
        assert_eq!(fs::read_dir(temp_dir.path()).unwrap().count(), 2);
    }
}
