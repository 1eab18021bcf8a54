//! The policy of `serve`: a file, or YAML on the command line, which fits into an annotation.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use hook_host::PolicySource;
use hook_host::policy::OperatorPolicy;

/// The default policy file of an image.
const DEFAULT: &str = "/etc/virt-hook/policy.yaml";
/// The file name of a policy from the command line, as errors show it.
const INLINE: &str = "--policy";

/// The text of an error with the place of a policy from the command line as the author knows it.
pub(super) fn with_place(text: &str, directory: &Path) -> String {
    text.replace(&directory.join(INLINE).display().to_string(), INLINE)
}

/// The policy's source. A policy from the command line is written into `directory`.
pub(super) fn source(argument: Option<&str>, directory: &Path) -> Result<PolicySource> {
    let Some(argument) = argument else {
        return Ok(PolicySource::IfPresent(DEFAULT.into()));
    };
    if !is_inline(argument) {
        return Ok(PolicySource::File(PathBuf::from(argument)));
    }
    let file = directory.join(INLINE);
    fs::write(&file, argument).with_context(|| file.display().to_string())?;
    Ok(PolicySource::File(file))
}

/// Refuses a policy whose rules depend on the namespace if that is not known: the rules that narrow would not hold.
pub(super) fn require_namespace(
    source: &PolicySource,
    namespace: &str,
    directory: &Path,
) -> Result<()> {
    // Errors are reported when the hooks are collected.
    let policy = OperatorPolicy::read(source).ok().flatten();
    if !namespace.is_empty() || !policy.is_some_and(|policy| policy.names_namespaces()) {
        return Ok(());
    }
    let place = match source {
        PolicySource::File(path) | PolicySource::IfPresent(path) => path.display().to_string(),
        PolicySource::None => String::new(),
    };
    bail!(
        "{}: it has rules for namespaces, and a sidecar does not know its own: give it with --namespace NAME",
        with_place(&place, directory)
    )
}

fn is_inline(argument: &str) -> bool {
    argument.trim_start().starts_with('{') || argument.contains('\n')
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn an_inline_policy_is_written_to_a_file() {
        let directory = tempfile::tempdir().unwrap();
        let source = |argument| source(argument, directory.path()).unwrap();
        assert_eq!(source(None), PolicySource::IfPresent(DEFAULT.into()));
        assert_eq!(
            source(Some("/p.yaml")),
            PolicySource::File("/p.yaml".into())
        );
        let inline = directory.path().join(INLINE);
        for text in ["{digests: Pinned}", "digests: Pinned\nsidecars: Forbid"] {
            assert_eq!(source(Some(text)), PolicySource::File(inline.clone()));
            assert_eq!(fs::read_to_string(&inline).unwrap(), text);
        }
        let error = format!("{}:1:3: unknown key", inline.display());
        assert_eq!(
            with_place(&error, directory.path()),
            "--policy:1:3: unknown key"
        );
    }
}
