//! `--policy` of `serve`: a file, or the YAML itself, which fits into an annotation of a VM.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use hook_host::PolicySource;
use hook_host::policy::OperatorPolicy;

/// The policy file without the option, if the image has one.
const DEFAULT_POLICY: &str = "/etc/virt-hook/policy.yaml";
/// The name of the file for a policy from the command line, and its path in errors.
const INLINE_POLICY_NAME: &str = "--policy";

/// The text of an error, with `--policy` in place of the path of the file for a policy from the command line.
pub(super) fn with_option_as_path(text: &str, directory: &Path) -> String {
    text.replace(
        &directory.join(INLINE_POLICY_NAME).display().to_string(),
        INLINE_POLICY_NAME,
    )
}

/// The policy's source. A policy from the command line is written into `directory`.
pub(super) fn source(argument: Option<&str>, directory: &Path) -> Result<PolicySource> {
    let Some(argument) = argument else {
        return Ok(PolicySource::IfPresent(DEFAULT_POLICY.into()));
    };
    if !is_inline(argument) {
        return Ok(PolicySource::File(PathBuf::from(argument)));
    }
    let file = directory.join(INLINE_POLICY_NAME);
    fs::write(&file, argument).with_context(|| file.display().to_string())?;
    Ok(PolicySource::File(file))
}

/// Refuses a policy with rules for namespaces if the namespace is not known: rules that restrict hooks would not apply.
pub(super) fn require_namespace(
    source: &PolicySource,
    namespace: &str,
    directory: &Path,
) -> Result<()> {
    // Errors are reported when the hooks are collected.
    let policy = OperatorPolicy::read(source).ok().flatten();
    if !namespace.is_empty() || !policy.is_some_and(|policy| policy.has_namespace_rules()) {
        return Ok(());
    }
    let path = match source {
        PolicySource::File(path) | PolicySource::IfPresent(path) => path.display().to_string(),
        PolicySource::None => String::new(),
    };
    bail!(
        "{}: it has rules for namespaces, and a sidecar does not know its own: give it with --namespace NAME",
        with_option_as_path(&path, directory)
    )
}

fn is_inline(argument: &str) -> bool {
    argument.trim_start().starts_with('{') || argument.contains('\n')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_inline_policy_is_written_to_a_file() {
        let directory = tempfile::tempdir().unwrap();
        let source = |argument| source(argument, directory.path()).unwrap();
        assert_eq!(source(None), PolicySource::IfPresent(DEFAULT_POLICY.into()));
        assert_eq!(
            source(Some("/p.yaml")),
            PolicySource::File("/p.yaml".into())
        );
        let inline = directory.path().join(INLINE_POLICY_NAME);
        for text in ["{digests: Pinned}", "digests: Pinned\nsidecars: Forbid"] {
            assert_eq!(source(Some(text)), PolicySource::File(inline.clone()));
            assert_eq!(fs::read_to_string(&inline).unwrap(), text);
        }
        let error = format!("{}:1:3: unknown key", inline.display());
        assert_eq!(
            with_option_as_path(&error, directory.path()),
            "--policy:1:3: unknown key"
        );
    }
}
