//! Which subscribers a callback of libvirt delivers to, looked up by number.
//!
//! libvirt is given a number as opaque, not a pointer. When a registration fails (the daemon has
//! just died) while another event of the same connection is being delivered, libvirt returns the
//! failure, which leaves the opaque with the caller, and later calls its free function all the same
//! (`virObjectEventStateDeregisterID` only marks it then). With a pointer that would be a double
//! free; a number that is no longer registered refers to nothing.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::subscribers::{Subscribers, catch_panic};

static REGISTRY: Mutex<Registry> = Mutex::new(Registry {
    last: 0,
    entries: BTreeMap::new(),
});

struct Registry {
    last: usize,
    entries: BTreeMap<usize, Arc<Subscribers>>,
}

/// The number of a registration, never given twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CallbackKey(usize);

impl CallbackKey {
    /// Registers subscribers until the key is released.
    pub(super) fn register(subscribers: &Arc<Subscribers>) -> CallbackKey {
        let mut registry = lock();
        registry.last += 1;
        let key = registry.last;
        registry.entries.insert(key, Arc::clone(subscribers));
        CallbackKey(key)
    }

    /// The number as the opaque that libvirt passes on; never to be dereferenced.
    pub(super) fn opaque(self) -> *mut c_void {
        std::ptr::without_provenance_mut(self.0)
    }

    /// The number in an opaque that libvirt passes to a callback.
    pub(super) fn from_opaque(opaque: *mut c_void) -> CallbackKey {
        CallbackKey(opaque.addr())
    }

    /// The subscribers, while the key is registered.
    pub(super) fn subscribers(self) -> Option<Arc<Subscribers>> {
        lock().entries.get(&self.0).map(Arc::clone)
    }

    /// Removes the key's entry; more than once does no harm.
    pub(super) fn release(self) {
        let subscribers = lock().entries.remove(&self.0);
        // What a handler owns (a channel's end) may panic when dropped.
        catch_panic(|| drop(subscribers));
    }
}

fn lock() -> MutexGuard<'static, Registry> {
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releasing_a_key_twice_does_no_harm() {
        let subscribers = Arc::<Subscribers>::default();
        let one = CallbackKey::register(&subscribers);
        let other = CallbackKey::register(&subscribers);
        assert_ne!(one, other);
        let returned = CallbackKey::from_opaque(one.opaque());
        assert_eq!(returned, one);
        assert!(returned.subscribers().is_some());
        returned.release();
        returned.release();
        assert!(one.subscribers().is_none() && other.subscribers().is_some());
        other.release();
        assert_eq!(Arc::strong_count(&subscribers), 1);
    }
}
