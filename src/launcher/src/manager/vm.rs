//! What operations work with.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use domain::access_credentials::Credential;
use hook_host::{Invocation, Reason};
use libvirt::{Guest, Hypervisor};
use tokio::sync::{Notify, mpsc, watch};

use super::connection::Connection;
use super::error::OpError;
use super::hooks::Hooks;
use super::metadata::Metadata;
use super::preparation::{CloudInitImage, Preparation};
use super::state::VmState;
use crate::blocking;
use crate::notify::{Fact, Notifier};

/// Which VM this launcher runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Identity {
    /// Namespace of the VMI.
    pub namespace: String,
    /// Name of the VMI.
    pub name: String,
    /// UID of the VMI.
    pub uid: String,
    /// libvirt's name of it.
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

    /// What hooks are told.
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

/// The virtual machine and all that acting on it takes.
pub struct Vm {
    /// Which one.
    pub identity: Identity,
    /// libvirt.
    pub connection: Arc<Connection>,
    /// KubeVirt's metadata.
    pub metadata: Arc<Metadata>,
    /// virt-handler.
    pub notifier: Notifier,
    /// The hooks.
    pub hooks: Arc<dyn Hooks>,
    /// The node and the pod's disks.
    pub preparation: Preparation,
    /// Whom to tell what the observer may have to look at.
    pub facts: mpsc::UnboundedSender<Fact>,
    /// What the observer knows.
    pub state: watch::Receiver<VmState>,
    /// The credentials that go into the guest through its agent; told by its start.
    pub credentials: watch::Sender<Vec<Credential>>,
    /// Told whenever somebody asks the guest to power off.
    pub guest_asked: Notify,
    /// Held while the domain is being defined, in one step or more.
    pub defining: Arc<tokio::sync::Mutex<()>>,
    /// What one operation leaves for the next.
    pub memory: Mutex<Memory>,
}

/// What one operation leaves for the next.
#[derive(Default)]
pub struct Memory {
    /// A user wants the VM paused: a sync must not resume it.
    pub paused_by_user: bool,
    /// This launcher has defined the domain, and what it needs is in place.
    pub defined: bool,
    /// The cloud-init image of this boot; it is written when the domain starts.
    pub cloud_init: Option<CloudInitImage>,
    /// The VM's owner does not want to hear of failing guest agent probes.
    pub agent_probe_paused: bool,
    /// Hook failures that the VM's owner has been told of.
    pub told: HashSet<String>,
}

/// Quick calls: lookups, states, XML.
pub const QUICK: Duration = Duration::from_secs(10);
/// Commands to a running QEMU.
pub const COMMAND: Duration = Duration::from_secs(30);
/// Defining, and starting QEMU: images may lie on slow storage.
pub const START: Duration = Duration::from_secs(120);

impl Vm {
    /// Runs blocking calls to libvirt.
    pub async fn libvirt<T, F>(
        &self,
        what: &'static str,
        deadline: Duration,
        work: F,
    ) -> Result<T, OpError>
    where
        T: Send + 'static,
        F: FnOnce(&dyn Hypervisor) -> libvirt::Result<T> + Send + 'static,
    {
        let hypervisor = self.connection.hypervisor();
        Ok(blocking::call(what, deadline, move || work(&*hypervisor)).await??)
    }

    /// The domain, if libvirt knows it.
    pub async fn lookup(&self) -> Result<Option<Arc<dyn Guest>>, OpError> {
        let domain = self.identity.domain.clone();
        self.libvirt("looking up the domain", QUICK, move |hypervisor| {
            hypervisor.lookup(&domain)
        })
        .await
    }

    /// Runs blocking calls on a domain.
    pub async fn on<T, F>(
        &self,
        guest: &Arc<dyn Guest>,
        what: &'static str,
        deadline: Duration,
        work: F,
    ) -> Result<T, OpError>
    where
        T: Send + 'static,
        F: FnOnce(&dyn Guest) -> libvirt::Result<T> + Send + 'static,
    {
        let guest = Arc::clone(guest);
        Ok(blocking::call(what, deadline, move || work(&*guest)).await??)
    }

    /// The domain's state.
    pub async fn state_of(&self, guest: &Arc<dyn Guest>) -> Result<libvirt::State, OpError> {
        self.on(guest, "asking for the domain's state", QUICK, |guest| {
            guest.state()
        })
        .await
    }

    /// The memory, for a moment.
    pub fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
