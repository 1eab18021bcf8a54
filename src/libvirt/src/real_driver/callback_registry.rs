//! Registry of the event handlers that libvirt's callbacks deliver to, by number.
//!
//! The opaque value that libvirt stores for a callback is a number instead of a pointer. When a registration fails (the
//! daemon has just died) while another event of the same connection is being delivered, libvirt returns the failure, so
//! that the caller still owns the opaque value, and calls the free function later all the same
//! (`virObjectEventStateDeregisterID` only marks the callback then). A pointer would be freed twice; a number that is
//! no longer registered refers to nothing.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::event_handlers::{EventHandlers, catch_panic};

static REGISTRY: Mutex<Registry> = Mutex::new(Registry {
    last_key: 0,
    entries: BTreeMap::new(),
});

struct Registry {
    last_key: usize,
    entries: BTreeMap<usize, Arc<EventHandlers>>,
}

/// The number of a registration. Numbers are not reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CallbackKey(usize);

impl CallbackKey {
    /// Registers the handlers of a connection until the key is released.
    pub(super) fn register(handlers: &Arc<EventHandlers>) -> CallbackKey {
        let mut registry = lock();
        registry.last_key += 1;
        let key = registry.last_key;
        registry.entries.insert(key, Arc::clone(handlers));
        CallbackKey(key)
    }

    /// The number as an opaque value for libvirt. It must not be dereferenced.
    pub(super) fn opaque(self) -> *mut c_void {
        std::ptr::without_provenance_mut(self.0)
    }

    /// The number in the opaque value that libvirt passes to a callback.
    pub(super) fn from_opaque(opaque: *mut c_void) -> CallbackKey {
        CallbackKey(opaque.addr())
    }

    /// The handlers; `None` if the key was released.
    pub(super) fn handlers(self) -> Option<Arc<EventHandlers>> {
        lock().entries.get(&self.0).map(Arc::clone)
    }

    /// Removes the registration. Further calls have no effect.
    pub(super) fn release(self) {
        let handlers = lock().entries.remove(&self.0);
        // The values that a handler owns (such as a channel's end) may panic when they are dropped.
        catch_panic(|| drop(handlers));
    }
}

fn lock() -> MutexGuard<'static, Registry> {
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_release_of_a_key_has_no_effect() {
        let handlers = Arc::<EventHandlers>::default();
        let key = CallbackKey::register(&handlers);
        let other = CallbackKey::register(&handlers);
        assert_ne!(key, other);
        let returned = CallbackKey::from_opaque(key.opaque());
        assert_eq!(returned, key);
        assert!(returned.handlers().is_some());
        returned.release();
        returned.release();
        assert!(key.handlers().is_none() && other.handlers().is_some());
        other.release();
        assert_eq!(Arc::strong_count(&handlers), 1);
    }
}
