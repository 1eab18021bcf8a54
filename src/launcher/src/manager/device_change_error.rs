//! Errors of changing a device of the running VM.

use hook_host::HookError;

/// libvirt's message when no PCIe root port is free.
const NO_PORT: &str = "No more available PCI slots";

/// Why a device of the running VM could not be changed.
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
}

impl DeviceChangeError {
    /// The error of a change that failed; `reason` may be libvirt's text.
    pub(super) fn failed(change: String, reason: String) -> DeviceChangeError {
        let hint = match reason.contains(NO_PORT) {
            true => {
                "; the VM has no free PCIe root port: detach another device, use the scsi bus for a disk, or stop and \
                 start the VM, which reserves free ports again"
            }
            false => "",
        };
        DeviceChangeError::Failed {
            change,
            reason,
            hint,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_explains_a_missing_root_port() {
        let text = |reason: &str| {
            DeviceChangeError::failed("attaching volume data".into(), reason.into()).to_string()
        };
        let error =
            text("LibvirtError(Code=1, Message='internal error: No more available PCI slots')");
        assert!(error.starts_with("attaching volume data: LibvirtError(Code=1"));
        assert!(error.contains("no free PCIe root port"), "{error}");
        assert_eq!(text("refused"), "attaching volume data: refused");
    }
}
