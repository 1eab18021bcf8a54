//! Why a device of the running VM could not be changed.

use hook_host::HookError;

/// What libvirt says when no PCIe root port is free.
const NO_PORT: &str = "No more available PCI slots";

/// A device of the running VM could not be changed.
#[derive(Debug, thiserror::Error)]
pub enum DeviceChangeError {
    /// It failed.
    #[error("{change}: {reason}{hint}")]
    Failed {
        /// What was tried.
        change: String,
        /// Why it failed.
        reason: String,
        /// The way out, if one is known.
        hint: &'static str,
    },
    /// Other changes took too long.
    #[error(
        "{change}: put off, since the changes before it took too long; the next sync continues"
    )]
    TooLate {
        /// What was not begun.
        change: String,
    },
    /// The time of all hooks ran out.
    #[error("{change}: put off: {reason}; the next {request} tries again")]
    HooksLate {
        /// What was not begun.
        change: String,
        /// The request that makes this change.
        request: &'static str,
        /// Which hook, and how much time there was.
        reason: Box<HookError>,
    },
}

impl DeviceChangeError {
    /// The change failed for this reason, which may be libvirt's text.
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
