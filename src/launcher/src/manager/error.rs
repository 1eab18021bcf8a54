//! Why an operation failed, and how virt-handler is told.

use domain::convert::ConvertError;
use domain::hotplug_room::RoomError;
use hook_host::HookError;
use libvirt::code;

use super::hooks::Hooks;
use super::preparation::PreparationError;
use super::requests::Refusal;
use crate::blocking::Unanswered;

/// An operation failed.
#[derive(Debug, thiserror::Error)]
pub enum OpError {
    /// libvirt refused.
    #[error(transparent)]
    Libvirt(#[from] libvirt::Error),
    /// libvirt refused the domain, for what a hook made of it.
    #[error(transparent)]
    Hooked(Box<Hooked>),
    /// A call took too long.
    #[error(transparent)]
    Unanswered(#[from] Unanswered),
    /// The request came too late, or something more important came in between.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// There is no domain to do it to.
    #[error("Domain not found.")]
    NotFound,
    /// The VMI cannot become a domain.
    #[error(transparent)]
    Convert(#[from] ConvertError),
    /// There is no making room for hotplug.
    #[error(transparent)]
    Room(#[from] RoomError),
    /// A hook said no, or failed.
    #[error(transparent)]
    Hook(Box<HookError>),
    /// Disks or cloud-init could not be put in place.
    #[error(transparent)]
    Preparation(#[from] PreparationError),
    /// The request is about another VM.
    #[error("this launcher runs {ours}, not {theirs}")]
    OtherVm {
        /// The domain of this launcher.
        ours: String,
        /// The domain of the VMI in the request.
        theirs: String,
    },
    /// A reboot needs the guest's help, and there is no way to ask for it.
    #[error("VMI neither have the agent connected nor the ACPI feature enabled")]
    NoWayToReboot,
    /// The operation ended without a result.
    #[error(
        "the operation failed inside the launcher; this is a fault of the launcher, please report it"
    )]
    Fault,
}

/// A domain that libvirt refused for what a hook made of it.
#[derive(Debug, thiserror::Error)]
#[error("{error} (hook {hook} changed {path})")]
pub struct Hooked {
    /// What libvirt says.
    pub error: libvirt::Error,
    /// The hook that last changed it.
    pub hook: String,
    /// What it changed.
    pub path: String,
}

impl From<HookError> for OpError {
    fn from(error: HookError) -> OpError {
        OpError::Hook(Box::new(error))
    }
}

impl OpError {
    /// libvirt's "no such domain", for operations that must name the domain.
    pub fn no_domain(domain: &str) -> OpError {
        OpError::Libvirt(libvirt::Error {
            code: code::NO_DOMAIN,
            domain: QEMU_DRIVER,
            message: format!("Domain not found: no domain with matching name '{domain}'"),
        })
    }

    /// The same, naming the hook that libvirt's refusal of the domain is about, if there is one.
    pub(super) fn naming_hook(self, hooks: &dyn Hooks) -> OpError {
        let OpError::Libvirt(error) = self else {
            return self;
        };
        match hooks.named_in(&error.message) {
            Some((hook, path)) => OpError::Hooked(Box::new(Hooked { error, hook, path })),
            None => OpError::Libvirt(error),
        }
    }

    /// Whether the operation was not (or no longer) wanted.
    pub fn is_refusal(&self) -> bool {
        matches!(self, OpError::Refused(_))
    }

    /// The text of a `Response`: libvirt's errors in the form KubeVirt's users search for.
    pub fn message(&self) -> String {
        match self {
            OpError::Libvirt(error) => response_text(error),
            OpError::Hooked(refused) => {
                let Hooked { error, hook, path } = &**refused;
                format!("{} (hook {hook} changed {path})", response_text(error))
            }
            other => other.to_string(),
        }
    }
}

/// `virErrorDomain` of the QEMU driver.
const QEMU_DRIVER: i32 = 10;

/// A libvirt error in a `Response`.
pub fn response_text(error: &libvirt::Error) -> String {
    let libvirt::Error {
        code,
        domain,
        message,
    } = error;
    format!("LibvirtError(Code={code}, Domain={domain}, Message='{message}')")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libvirts_code_and_text_are_kept() {
        let text = OpError::no_domain("default_vm1").message();
        assert_eq!(
            text,
            "LibvirtError(Code=42, Domain=10, Message='Domain not found: no domain with matching name 'default_vm1'')"
        );
        assert_eq!(OpError::NotFound.message(), "Domain not found.");
    }
}
