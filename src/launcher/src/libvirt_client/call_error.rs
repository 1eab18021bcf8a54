//! Errors of calls to libvirt.

use libvirt::code;

use crate::blocking::NoAnswer;

/// `virErrorDomain` of the QEMU driver.
pub(crate) const QEMU_DRIVER: i32 = 10;

/// A call to libvirt failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum CallError {
    /// libvirt returned an error.
    #[error(transparent)]
    Libvirt(#[from] libvirt::Error),
    /// The call timed out.
    #[error(transparent)]
    NoAnswer(#[from] NoAnswer),
    /// QEMU has not ended after SIGKILL.
    #[error(
        "QEMU (pid {pid}) was sent SIGKILL and has not ended; it most likely waits for storage"
    )]
    NotEnded {
        /// The process id of QEMU.
        pid: i32,
    },
}

impl CallError {
    /// libvirt's error for a domain that does not exist, with the domain's name.
    pub fn no_domain(domain: &str) -> CallError {
        CallError::Libvirt(libvirt::Error {
            code: code::NO_DOMAIN,
            domain: QEMU_DRIVER,
            message: format!("Domain not found: no domain with matching name '{domain}'"),
        })
    }

    /// Whether the domain is certainly unchanged, since the QEMU driver returned the error. A call that timed out or
    /// whose connection broke may still be carried out.
    pub fn is_definite(&self) -> bool {
        matches!(self, CallError::Libvirt(error) if error.domain == QEMU_DRIVER)
    }

    /// Whether libvirt does not know the domain.
    pub fn is_no_domain(&self) -> bool {
        matches!(self, CallError::Libvirt(error) if error.is_no_domain())
    }

    /// The text for a `Response`.
    pub fn message(&self) -> String {
        match self {
            CallError::Libvirt(error) => response_text(error),
            other => other.to_string(),
        }
    }
}

/// The text of a libvirt error for a `Response`, in KubeVirt's format, which users search for.
pub(crate) fn response_text(error: &libvirt::Error) -> String {
    let libvirt::Error { code, domain, .. } = error;
    let message = error.printable_message();
    format!("LibvirtError(Code={code}, Domain={domain}, Message='{message}')")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn response_text_has_libvirts_code_and_message() {
        let text = CallError::no_domain("default_vm1").message();
        assert_eq!(
            text,
            "LibvirtError(Code=42, Domain=10, Message='Domain not found: no domain with matching name 'default_vm1'')"
        );
    }
}
