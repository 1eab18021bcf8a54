//! Where the policy is: in a file, or on the command line, as an annotation has room for it.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use hook_host::PolicySource;

/// Of an image that brings one.
const DEFAULT: &str = "/etc/virt-hook/policy.yaml";
/// What errors call a policy that is no file.
const INLINE: &str = "--policy";

/// `place` is for a policy that is no file yet.
pub(super) fn source(argument: Option<&str>, place: &Path) -> Result<PolicySource> {
    let Some(argument) = argument else {
        return Ok(PolicySource::IfPresent(DEFAULT.into()));
    };
    if !is_inline(argument) {
        return Ok(PolicySource::File(PathBuf::from(argument)));
    }
    let file = place.join(INLINE);
    fs::write(&file, argument).with_context(|| file.display().to_string())?;
    Ok(PolicySource::File(file))
}

fn is_inline(argument: &str) -> bool {
    argument.trim_start().starts_with('{') || argument.contains('\n')
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_policy_is_a_file_in_the_end() {
        let place = tempfile::tempdir().unwrap();
        let source = |argument| source(argument, place.path()).unwrap();
        assert_eq!(source(None), PolicySource::IfPresent(DEFAULT.into()));
        assert_eq!(
            source(Some("/p.yaml")),
            PolicySource::File("/p.yaml".into())
        );
        let inline = place.path().join(INLINE);
        for text in ["{digests: Pinned}", "digests: Pinned\nsidecars: Forbid"] {
            assert_eq!(source(Some(text)), PolicySource::File(inline.clone()));
            assert_eq!(fs::read_to_string(&inline).unwrap(), text);
        }
    }
}
