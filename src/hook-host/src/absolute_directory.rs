//! Absolute directories in wishes and policies.

use std::path::{Component, Path, PathBuf};

use crate::printable::{UnprintableText, check_printable};

/// Why a text is no directory of a wish or policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DirectoryError {
    #[error(transparent)]
    Unprintable(#[from] UnprintableText),
    #[error("{0:?} is not an absolute path without `.` and `..`")]
    NotAbsolute(String),
}

/// Parses the path of a directory, which must be absolute and without `.` and `..`.
pub(crate) fn absolute_directory(text: &str) -> Result<PathBuf, DirectoryError> {
    check_printable("directory", text)?;
    let path = Path::new(text);
    let has_only_names = path
        .components()
        .all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    if path.is_absolute() && has_only_names && !text.split('/').any(|part| part == ".") {
        Ok(path.components().collect())
    } else {
        Err(DirectoryError::NotAbsolute(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_directories_and_those_with_dots_are_refused() {
        assert_eq!(absolute_directory("/a//b/"), Ok(PathBuf::from("/a/b")));
        for invalid in ["a", "/a/../b", "/a/./b", ""] {
            assert!(absolute_directory(invalid).is_err(), "{invalid}");
        }
    }
}
