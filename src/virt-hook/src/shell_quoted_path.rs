//! Paths in commands that are printed for the user.

use std::borrow::Cow;
use std::path::Path;

/// Quotes a path for a shell.
pub(crate) fn shell_quoted(path: &Path) -> String {
    let text = path.display().to_string();
    shlex::try_quote(&text).map_or_else(|_| text.clone(), Cow::into_owned)
}
