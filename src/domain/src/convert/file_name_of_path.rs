//! The file name at the end of a path in a VMI.

/// The last component of a path; `None` if it names no file.
pub(crate) fn file_name(path: &str) -> Option<&str> {
    let name = path.trim_end_matches('/').rsplit('/').next()?;
    (!matches!(name, "" | "." | "..")).then_some(name)
}
