//! The connection that is used only to end the domain.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use libvirt::{Domain, HypervisorConnection};

use super::call_class::{CallClass, ENDING};
use super::connection_attempt::Connect;
use super::reconnecting_connection::RECONNECT_TIMEOUT;
use super::{CallError, Client};

/// The pause between two attempts to connect.
const CONNECT_INTERVAL: Duration = Duration::from_millis(50);

/// The connection that is used only to end the domain.
pub(super) struct EndingConnection {
    connect: Connect,
    current: Mutex<Option<Arc<dyn HypervisorConnection>>>,
}

impl EndingConnection {
    pub(super) fn new(connect: Connect) -> EndingConnection {
        EndingConnection {
            connect,
            current: Mutex::default(),
        }
    }

    /// The connection, which is opened again if it was lost; waits for a daemon that restarts. Blocking.
    fn open(&self) -> libvirt::Result<Arc<dyn HypervisorConnection>> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(hypervisor) = current.as_ref().filter(|hypervisor| hypervisor.is_alive()) {
            return Ok(Arc::clone(hypervisor));
        }
        let deadline = Instant::now() + RECONNECT_TIMEOUT;
        loop {
            match (self.connect)() {
                Ok(hypervisor) => {
                    *current = Some(Arc::clone(&hypervisor));
                    return Ok(hypervisor);
                }
                Err(error) if Instant::now() >= deadline => return Err(error),
                Err(_) => std::thread::sleep(CONNECT_INTERVAL),
            }
        }
    }

    /// Runs `work` on the domain; runs it again if the connection broke meanwhile. `None` when there is no domain.
    /// Blocking.
    fn on<T>(
        &self,
        name: &str,
        work: impl Fn(&dyn Domain) -> libvirt::Result<T>,
    ) -> libvirt::Result<Option<T>> {
        let hypervisor = self.open()?;
        let run = |hypervisor: &dyn HypervisorConnection| match hypervisor.lookup(name)? {
            Some(domain) => work(&*domain).map(Some),
            None => Ok(None),
        };
        match run(&*hypervisor) {
            Err(_) if !hypervisor.is_alive() => run(&*self.open()?),
            result => result,
        }
    }
}

impl Client {
    /// Opens the connection before it is needed.
    pub(super) fn open_ending_connection(&self) {
        let inner = Arc::clone(&self.0);
        let open = move || drop(inner.ending.open());
        self.0.lanes.get(ENDING.lane).push(Box::new(open));
    }

    /// Runs `work`, which ends the domain, in the lane and on the connection for this purpose; `None` when there is no
    /// domain. `work` runs twice when the connection breaks.
    pub async fn end<T, F>(&self, what: &'static str, work: F) -> Result<Option<T>, CallError>
    where
        T: Send + 'static,
        F: Fn(&dyn Domain) -> libvirt::Result<T> + Send + 'static,
    {
        self.end_within(what, ENDING, work).await
    }

    pub(super) async fn end_within<T, F>(
        &self,
        what: &'static str,
        class: CallClass,
        work: F,
    ) -> Result<Option<T>, CallError>
    where
        T: Send + 'static,
        F: Fn(&dyn Domain) -> libvirt::Result<T> + Send + 'static,
    {
        let inner = Arc::clone(&self.0);
        let call = move || inner.ending.on(&inner.domain_name, work);
        match self.call(what, class, call).await {
            Err(CallError::Libvirt(error)) if error.is_no_domain() => Ok(None),
            result => result,
        }
    }
}
