//! CAP_NET_BIND_SERVICE for a daemon that is not root.
//!
//! The monitor gives it to the launcher as an ambient capability, which children inherit. When
//! the launcher got it another way (capabilities of its file), it is put into the ambient set of
//! the spawning thread for the moment of the spawn.

use std::io;

use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
use rustix::thread::{capability_is_in_ambient_set, configure_capability_in_ambient_set};

const BIND: CapabilitySet = CapabilitySet::NET_BIND_SERVICE;

/// Runs `spawn` with the capability inheritable, if this process has it at all.
pub(super) fn with_bind_service<T>(spawn: impl FnOnce() -> T) -> T {
    let raised = raise().unwrap_or_else(|error| {
        tracing::debug!(%error, "CAP_NET_BIND_SERVICE cannot be passed on");
        false
    });
    let spawned = spawn();
    if raised {
        // Best effort: the thread may keep a capability that the process has anyway.
        let _ = configure_capability_in_ambient_set(BIND, false);
    }
    spawned
}

/// Whether the capability was put into the ambient set just now.
fn raise() -> io::Result<bool> {
    if capability_is_in_ambient_set(BIND)? {
        return Ok(false);
    }
    let mut sets = capabilities(None)?;
    if !sets.permitted.contains(BIND) {
        return Ok(false);
    }
    sets.inheritable |= BIND;
    set_capabilities(None, sets)?;
    configure_capability_in_ambient_set(BIND, true)?;
    Ok(true)
}
