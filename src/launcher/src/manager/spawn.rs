//! A virtual machine put together from its parts.

use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinHandle;

use super::connection::Connection;
use super::handle::Manager;
use super::hooks::Hooks;
use super::metadata::Metadata;
use super::observer::Observer;
use super::preparation::Preparation;
use super::state::VmState;
use super::trouble::Warner;
use super::vm::{Identity, Vm};
use crate::access_credentials;
use crate::notify::{Fact, Notifier};

/// What a virtual machine is made of.
pub struct Parts {
    /// Which one.
    pub identity: Identity,
    /// libvirt.
    pub connection: Arc<Connection>,
    /// virt-handler.
    pub notifier: Notifier,
    /// The hooks.
    pub hooks: Arc<dyn Hooks>,
    /// The node and the pod's disks.
    pub preparation: Preparation,
    /// Where QEMU's output is written.
    pub qemu_log: PathBuf,
}

/// A virtual machine that can be asked and watched.
pub struct Spawned {
    /// To ask.
    pub manager: Manager,
    /// Its state, as it changes.
    pub state: watch::Receiver<VmState>,
    /// Whom to tell what happens to it; libvirt's events go here too.
    pub facts: mpsc::UnboundedSender<Fact>,
    /// The task that watches it.
    pub observer: JoinHandle<()>,
    /// The task that keeps the guest's access credentials.
    pub credentials: JoinHandle<()>,
}

impl Parts {
    /// Starts its tasks: the driver, the observer and the one for access credentials.
    pub fn spawn(self) -> Spawned {
        let (facts, told) = mpsc::unbounded_channel();
        let (state, seen) = watch::channel(VmState::Absent);
        let metadata = Arc::new(Metadata::new(facts.clone()));
        let defining = Arc::default();
        let observer = Observer {
            defining: Arc::clone(&defining),
            connection: Arc::clone(&self.connection),
            identity: self.identity.clone(),
            metadata: Arc::clone(&metadata),
            notifier: self.notifier.clone(),
            warner: Warner::new(self.qemu_log),
            state,
        };
        let vm = Vm {
            identity: self.identity,
            connection: self.connection,
            metadata,
            notifier: self.notifier,
            hooks: self.hooks,
            preparation: self.preparation,
            facts: facts.clone(),
            state: seen.clone(),
            credentials: watch::Sender::default(),
            guest_asked: Notify::new(),
            defining,
            memory: Default::default(),
        };
        let vm = Arc::new(vm);
        let credentials = access_credentials::keep(Arc::clone(&vm));
        Spawned {
            manager: Manager::start(vm),
            state: seen,
            facts,
            observer: tokio::spawn(observer.run(told)),
            credentials: tokio::spawn(credentials),
        }
    }
}
