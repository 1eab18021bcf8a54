//! What libvirt's callbacks deliver to, by number.
//!
//! libvirt is lent a number, not memory. When a registration fails (the daemon has just died) while
//! another event of the same connection is being delivered, libvirt returns the failure, which
//! leaves the opaque with the caller, and later calls its free function all the same
//! (`virObjectEventStateDeregisterID` only marks it then). With memory that is a double free; a
//! number that is not known any more is nothing.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::sinks::{Sinks, contain};

/// What a callback delivers to.
pub(super) type Target = Arc<Sinks>;

static KEPT: Mutex<Kept> = Mutex::new(Kept {
    last: 0,
    targets: BTreeMap::new(),
});

struct Kept {
    last: usize,
    targets: BTreeMap<usize, Target>,
}

/// The number of a registration, never given twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key(usize);

impl Key {
    /// Keeps a target until it is forgotten.
    pub(super) fn keep(target: &Target) -> Key {
        let mut kept = lock();
        kept.last += 1;
        let key = kept.last;
        kept.targets.insert(key, Arc::clone(target));
        Key(key)
    }

    /// The number in the form that libvirt hands through; never to be dereferenced.
    pub(super) fn opaque(self) -> *mut c_void {
        std::ptr::without_provenance_mut(self.0)
    }

    /// The number that libvirt hands back.
    pub(super) fn from_opaque(opaque: *mut c_void) -> Key {
        Key(opaque.addr())
    }

    /// The target, while it is kept.
    pub(super) fn target(self) -> Option<Target> {
        lock().targets.get(&self.0).map(Arc::clone)
    }

    /// Lets go of the target; more than once does no harm.
    pub(super) fn forget(self) {
        let target = lock().targets.remove(&self.0);
        // What a sink owns (a channel's end) may panic when dropped.
        contain(|| drop(target));
    }
}

fn lock() -> MutexGuard<'static, Kept> {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registration_may_be_given_back_twice() {
        let target = Target::default();
        let (one, other) = (Key::keep(&target), Key::keep(&target));
        assert_ne!(one, other);
        let returned = Key::from_opaque(one.opaque());
        assert_eq!(returned, one);
        assert!(returned.target().is_some());
        returned.forget();
        returned.forget();
        assert!(one.target().is_none() && other.target().is_some());
        other.forget();
        assert_eq!(Arc::strong_count(&target), 1);
    }
}
