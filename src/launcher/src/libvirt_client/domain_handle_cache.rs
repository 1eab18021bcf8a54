//! Caches the handle of the domain, which saves every query one round trip.

use std::sync::{Arc, Mutex, PoisonError};

use libvirt::Domain;

use super::reconnecting_connection::Session;

/// The handle, with the generation of the session that it belongs to.
#[derive(Default)]
pub(super) struct DomainHandleCache(Mutex<Option<(u64, Arc<dyn Domain>)>>);

impl DomainHandleCache {
    /// Runs `read` on the domain; `None` when there is no such domain. Blocking.
    pub(super) fn read<T>(
        &self,
        session: &Session,
        name: &str,
        read: impl Fn(&Arc<dyn Domain>) -> libvirt::Result<T>,
    ) -> libvirt::Result<Option<T>> {
        if let Some(domain) = self.cached(session) {
            match read(&domain) {
                // The domain may have been defined again, with another UUID.
                Err(error) if error.is_no_domain() => self.store(None),
                result => return result.map(Some),
            }
        }
        let Some(domain) = session.hypervisor.lookup(name)? else {
            return Ok(None);
        };
        match read(&domain) {
            Err(error) if error.is_no_domain() => Ok(None),
            result => {
                self.store(Some((session.generation, domain)));
                result.map(Some)
            }
        }
    }

    fn cached(&self, session: &Session) -> Option<Arc<dyn Domain>> {
        let cached = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (generation, domain) = cached.as_ref()?;
        (*generation == session.generation).then(|| Arc::clone(domain))
    }

    fn store(&self, handle: Option<(u64, Arc<dyn Domain>)>) {
        let mut cached = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let old = std::mem::replace(&mut *cached, handle);
        drop(cached);
        // Dropped without the lock: the handle may be the last user of its connection, whose closing blocks.
        drop(old);
    }
}
