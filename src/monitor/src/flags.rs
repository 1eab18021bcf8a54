//! Parses the command line: virt-launcher's flags and one flag of the monitor.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

const KEEP_AFTER_FAILURE: &str = "--keep-after-failure";

/// The flags that the monitor uses, and the arguments for virt-launcher.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Flags {
    /// `--keep-after-failure`: keep the container alive when virt-launcher has failed. This flag is not passed on.
    pub(crate) keep_after_failure: bool,
    /// `--container-disk-dir`.
    pub(crate) container_disk_dir: PathBuf,
    /// `--ephemeral-disk-dir`.
    pub(crate) ephemeral_disk_dir: PathBuf,
    /// `--kubevirt-share-dir`.
    pub(crate) share_dir: PathBuf,
    /// The arguments for virt-launcher: all but `--keep-after-failure`, also those that the monitor does not know.
    pub(crate) launcher_arguments: Vec<OsString>,
}

impl Flags {
    /// Parses both notations, `--flag value` and `--flag=value`. The last occurrence of a flag counts.
    ///
    /// # Errors
    /// If a value of `--keep-after-failure` is none of Go's words for a boolean, as pflag refuses it.
    pub(crate) fn parse(arguments: impl Iterator<Item = OsString>) -> Result<Self, String> {
        let mut keep_after_failure = false;
        let mut launcher_arguments = Vec::new();
        for argument in arguments {
            match keep_flag_value(&argument) {
                Some(value) => keep_after_failure = parse_bool(&value)?,
                None => launcher_arguments.push(argument),
            }
        }
        Ok(Self {
            keep_after_failure,
            container_disk_dir: last_value(&launcher_arguments, "--container-disk-dir")
                .unwrap_or_else(|| "/var/run/kubevirt/container-disks".into())
                .into(),
            ephemeral_disk_dir: last_value(&launcher_arguments, "--ephemeral-disk-dir")
                .unwrap_or_else(|| "/var/run/kubevirt-ephemeral-disks".into())
                .into(),
            share_dir: last_value(&launcher_arguments, "--kubevirt-share-dir")
                .unwrap_or_else(|| "/var/run/kubevirt".into())
                .into(),
            launcher_arguments,
        })
    }
}

/// The value of `--keep-after-failure`, if the argument is this flag.
fn keep_flag_value(argument: &OsStr) -> Option<String> {
    match argument
        .to_string_lossy()
        .strip_prefix(KEEP_AFTER_FAILURE)?
    {
        "" => Some("true".to_owned()),
        rest => rest.strip_prefix('=').map(str::to_owned),
    }
}

/// Go's `strconv.ParseBool`.
fn parse_bool(value: &str) -> Result<bool, String> {
    match value {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err(format!(
            "invalid value {value:?} of {KEEP_AFTER_FAILURE}: it is true or false"
        )),
    }
}

/// The value of the last occurrence of a flag.
fn last_value(arguments: &[OsString], flag: &str) -> Option<OsString> {
    let mut last = None;
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        if argument == flag {
            last = rest.next().cloned();
        } else if let Some(value) = argument
            .as_bytes()
            .strip_prefix(flag.as_bytes())
            .and_then(|rest| rest.strip_prefix(b"="))
        {
            last = Some(OsStr::from_bytes(value).to_owned());
        }
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Flags {
        Flags::parse(arguments.iter().map(OsString::from)).unwrap()
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
        assert_eq!(
            flags.launcher_arguments,
            ["--name", "vm", "--whatever=1", "-v", "5"]
        );
        assert!(!parse(&["--keep-after-failure=false"]).keep_after_failure);
        assert!(parse(&["--keep-after-failure=True"]).keep_after_failure);
        assert!(!parse(&["--keep-after-failure", "--keep-after-failure=0"]).keep_after_failure);
        assert_eq!(
            parse(&["--keep-after-failure-x"]).launcher_arguments,
            ["--keep-after-failure-x"]
        );
    }

    #[test]
    fn a_malformed_value_of_keep_after_failure_is_refused() {
        for value in ["", "yes", "on", "ture"] {
            let argument = OsString::from(format!("--keep-after-failure={value}"));
            let error = Flags::parse([argument].into_iter()).unwrap_err();
            assert!(
                error.contains(&format!("{value:?} of --keep-after-failure")),
                "{error}"
            );
        }
    }

    #[test]
    fn directories_are_read_in_both_notations() {
        for arguments in [
            &["--container-disk-dir", "/a"][..],
            &["--container-disk-dir=/a"],
        ] {
            let flags = parse(arguments);
            assert_eq!(flags.container_disk_dir, PathBuf::from("/a"));
            assert_eq!(flags.launcher_arguments, arguments);
        }
        assert_eq!(parse(&[]).share_dir, PathBuf::from("/var/run/kubevirt"));
        assert_eq!(
            parse(&["--container-disk-dir"]).container_disk_dir,
            PathBuf::from("/var/run/kubevirt/container-disks")
        );
    }
}
