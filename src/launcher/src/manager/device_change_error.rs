//! Errors of changing devices of the running VM.

use std::fmt;

use hook_host::{HookError, printable};
use kubevirt_api::vmi::Vmi;

use crate::libvirt_client::response_text;

/// libvirt's message when no PCIe root port is free.
const NO_PORT: &str = "No more available PCI slots";
const NO_FREE_PORT_HINT: &str = "; the VM has no free PCIe root port: detach a device that uses one (an interface, a \
    virtio disk), use the scsi bus for a disk, or stop and start the VM, since each start reserves free ports";
const ROOT_COMPLEX_HINT: &str = "; the VM has no free PCIe root port, since the annotation \
    kubevirt.io/placePCIDevicesOnRootComplex reserves none: use the scsi bus for a disk, or start the VM without the \
    annotation";
/// The bytes of reasons that the error of several changes contains. Of further changes it names only the change, so
/// that the error of many devices is not larger than a Kubernetes event.
const MAX_REASON_BYTES: usize = 4096;

/// Why devices of the running VM could not be changed.
#[derive(Debug, thiserror::Error)]
pub enum DeviceChangeError {
    /// The change failed.
    #[error("{change}: {reason}{hint}")]
    Failed {
        /// The change that was tried.
        change: String,
        /// Why it failed.
        reason: String,
        /// What the user can do about it; empty if that is not known.
        hint: &'static str,
    },
    /// The change was not started, because the changes before it took too long.
    #[error(
        "{change}: put off, since the changes before it took too long; the next sync continues"
    )]
    OutOfTime {
        /// The change that was not started.
        change: String,
    },
    /// The change was not started, because the hooks used up the time that they have together.
    #[error("{change}: put off: {reason}; the next {request} tries again")]
    HooksOutOfTime {
        /// The change that was not started.
        change: String,
        /// The request that makes this change.
        request: &'static str,
        /// The timeout, with the hook that ran into it.
        reason: Box<HookError>,
    },
    /// Several changes were not made. The others were.
    #[error("{0}")]
    Several(FailedChanges),
}

/// At least two changes that were not made.
#[derive(Debug)]
pub struct FailedChanges(Vec<DeviceChangeError>);

impl DeviceChangeError {
    /// The error of a change that failed; `reason` may be libvirt's text.
    pub(super) fn failed(change: String, reason: String, vmi: &Vmi) -> DeviceChangeError {
        let hint = match reason.contains(NO_PORT) {
            true if vmi.is_on_root_complex() => ROOT_COMPLEX_HINT,
            true => NO_FREE_PORT_HINT,
            false => "",
        };
        DeviceChangeError::Failed {
            change,
            reason,
            hint,
        }
    }

    /// The error of all changes that were not made; `None` if there are none.
    pub(super) fn of_all(mut failures: Vec<DeviceChangeError>) -> Option<DeviceChangeError> {
        match failures.len() {
            0 | 1 => failures.pop(),
            _ => Some(DeviceChangeError::Several(FailedChanges(failures))),
        }
    }

    /// The change that was not made.
    pub(super) fn change(&self) -> &str {
        match self {
            DeviceChangeError::Failed { change, .. }
            | DeviceChangeError::OutOfTime { change }
            | DeviceChangeError::HooksOutOfTime { change, .. } => change,
            DeviceChangeError::Several(_) => "several changes",
        }
    }
}

impl fmt::Display for FailedChanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} changes were not made: ", self.0.len())?;
        let mut written = 0;
        for (index, failure) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("; ")?;
            }
            let text = failure.to_string();
            match written + text.len() <= MAX_REASON_BYTES {
                true => f.write_str(&text)?,
                false => f.write_str(failure.change())?,
            }
            written += text.len();
        }
        Ok(())
    }
}

/// Maximum length of a hook's name, and of the path of its change, in bytes.
const MAX_NAME_BYTES: usize = 1024;

/// A hook's change of the domain that libvirt refused.
#[derive(Debug, thiserror::Error)]
#[error("{error} (hook {hook} changed {path})")]
pub struct RefusedHookChange {
    /// libvirt's error.
    pub error: libvirt::Error,
    /// The hook that last changed the refused element.
    pub hook: String,
    /// The path of the element.
    pub path: String,
}

impl RefusedHookChange {
    /// `hook` and `path` are escaped and cut.
    pub(super) fn new(error: libvirt::Error, hook: &str, path: &str) -> RefusedHookChange {
        RefusedHookChange {
            error,
            hook: printable(hook, MAX_NAME_BYTES),
            path: printable(path, MAX_NAME_BYTES),
        }
    }

    /// The text of a `Response`.
    pub(super) fn message(&self) -> String {
        let RefusedHookChange { error, hook, path } = self;
        format!("{} (hook {hook} changed {path})", response_text(error))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::command_error::CommandError;
    use super::*;

    fn failed(change: &str, reason: &str, annotations: serde_json::Value) -> DeviceChangeError {
        let vmi = json!({"metadata": {"name": "vm1", "namespace": "default", "uid": "1",
                "annotations": annotations}});
        let vmi = Vmi::from_json(vmi.to_string().as_bytes()).unwrap();
        DeviceChangeError::failed(change.into(), reason.into(), &vmi)
    }

    #[test]
    fn error_explains_a_missing_root_port() {
        let text =
            |reason, annotations| failed("attaching volume data", reason, annotations).to_string();
        let no_port = "LibvirtError(Code=1, Message='internal error: No more available PCI slots')";
        let error = text(no_port, json!({}));
        assert!(error.starts_with("attaching volume data: LibvirtError(Code=1"));
        assert!(
            error.contains("no free PCIe root port") && error.contains("start the VM, since"),
            "{error}"
        );
        let on_root = json!({"kubevirt.io/placePCIDevicesOnRootComplex": "true"});
        let error = text(no_port, on_root);
        assert!(
            error.contains("no free PCIe root port") && error.contains("without the annotation"),
            "{error}"
        );
        assert_eq!(text("refused", json!({})), "attaching volume data: refused");
    }

    #[test]
    fn error_of_several_changes_names_each() {
        let all = |count: usize, reason: &str| {
            let failures =
                (0..count).map(|number| failed(&format!("change {number}"), reason, json!({})));
            DeviceChangeError::of_all(failures.collect()).map(|error| error.to_string())
        };
        assert_eq!(all(0, "refused"), None);
        assert_eq!(all(1, "refused").unwrap(), "change 0: refused");
        assert_eq!(
            all(2, "refused").unwrap(),
            "2 changes were not made: change 0: refused; change 1: refused"
        );
        let many = all(256, &"x".repeat(1000)).unwrap();
        assert!(many.ends_with("; change 255") && many.len() < 2 * MAX_REASON_BYTES);
    }

    /// libvirt quotes the values that it refuses, and hooks and the VM's owner write them.
    #[test]
    fn errors_of_libvirt_are_printable() {
        let unprintable = ('\0'..=char::MAX).filter(|c| !hook_host::is_printable(*c));
        let groups: Vec<char> = unprintable.collect();
        for group in groups.chunks(100) {
            let text: String = group.iter().collect();
            let error = || {
                CommandError::Libvirt(libvirt::Error {
                    code: 27,
                    domain: 20,
                    message: format!("XML error: unknown model '{text}'"),
                })
            };
            let named =
                error().with_hook(|_| Some(("painter".to_owned(), format!("/domain/{text}"))));
            for error in [error(), named] {
                for printed in [error.message(), error.to_string()] {
                    assert!(printed.chars().all(hook_host::is_printable), "{printed}");
                }
            }
        }
    }
}
