//! The command line: virt-launcher's, and one flag of the monitor's own.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// The part of the command line that the monitor uses.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Flags {
    /// `--keep-after-failure`: stay when virt-launcher has failed. The only flag that is not passed on.
    pub(crate) keep_after_failure: bool,
    /// `--container-disk-dir`.
    pub(crate) container_disk_dir: PathBuf,
    /// `--kubevirt-share-dir`.
    pub(crate) share_dir: PathBuf,
    /// virt-launcher's command line, with flags that the monitor does not know.
    pub(crate) passed: Vec<OsString>,
}

impl Flags {
    /// Reads `--flag value` and `--flag=value`.
    pub(crate) fn parse(arguments: impl Iterator<Item = OsString>) -> Self {
        let (own, passed): (Vec<_>, Vec<_>) =
            arguments.partition(|argument| keep_flag(argument).is_some());
        Self {
            keep_after_failure: own
                .last()
                .and_then(|argument| keep_flag(argument))
                .unwrap_or(false),
            container_disk_dir: value(&passed, "--container-disk-dir")
                .unwrap_or_else(|| "/var/run/kubevirt/container-disks".into())
                .into(),
            share_dir: value(&passed, "--kubevirt-share-dir")
                .unwrap_or_else(|| "/var/run/kubevirt".into())
                .into(),
            passed,
        }
    }
}

/// The value of `--keep-after-failure`, if the argument is this flag.
fn keep_flag(argument: &OsStr) -> Option<bool> {
    match argument.to_str()?.strip_prefix("--keep-after-failure")? {
        "" | "=true" | "=1" | "=t" => Some(true),
        rest if rest.starts_with('=') => Some(false),
        _ => None,
    }
}

/// The last value of a flag.
fn value(arguments: &[OsString], flag: &str) -> Option<OsString> {
    let mut found = None;
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        if argument == flag {
            found = rest.next().cloned();
        } else if let Some(value) = argument
            .as_bytes()
            .strip_prefix(flag.as_bytes())
            .and_then(|rest| rest.strip_prefix(b"="))
        {
            found = Some(OsStr::from_bytes(value).to_owned());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Flags {
        Flags::parse(arguments.iter().map(OsString::from))
    }

    #[test]
    fn all_flags_but_keep_after_failure_are_passed_on() {
        let flags = parse(&[
            "--name",
            "vm",
            "--keep-after-failure",
            "--whatever=1",
            "-v",
            "5",
        ]);
        assert!(flags.keep_after_failure);
        assert_eq!(flags.passed, ["--name", "vm", "--whatever=1", "-v", "5"]);
        assert!(!parse(&["--keep-after-failure=false"]).keep_after_failure);
        assert_eq!(
            parse(&["--keep-after-failure-x"]).passed,
            ["--keep-after-failure-x"]
        );
    }

    #[test]
    fn directories_are_read_in_both_notations() {
        for arguments in [
            &["--container-disk-dir", "/a"][..],
            &["--container-disk-dir=/a"],
        ] {
            let flags = parse(arguments);
            assert_eq!(flags.container_disk_dir, PathBuf::from("/a"));
            assert_eq!(flags.passed, arguments);
        }
        assert_eq!(parse(&[]).share_dir, PathBuf::from("/var/run/kubevirt"));
        assert_eq!(
            parse(&["--container-disk-dir"]).container_disk_dir,
            PathBuf::from("/var/run/kubevirt/container-disks")
        );
    }
}
