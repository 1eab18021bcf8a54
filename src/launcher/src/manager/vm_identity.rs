//! The names of the VM that this launcher runs.

use hook_host::{Invocation, Reason};

/// The names of the VM that this launcher runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Identity {
    /// Namespace of the VMI.
    pub namespace: String,
    /// Name of the VMI.
    pub name: String,
    /// UID of the VMI.
    pub uid: String,
    /// libvirt's name of the domain.
    pub domain: String,
}

impl Identity {
    /// The identity of a VMI.
    pub fn new(namespace: &str, name: &str, uid: &str) -> Identity {
        Identity {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            uid: uid.to_owned(),
            domain: format!("{namespace}_{name}"),
        }
    }

    /// The context of a hook's call, for this reason.
    pub fn invocation(&self, reason: Reason) -> Invocation {
        Invocation {
            reason,
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            uid: self.uid.clone(),
            domain: self.domain.clone(),
        }
    }
}
