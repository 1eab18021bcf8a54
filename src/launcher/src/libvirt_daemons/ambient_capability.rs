//! Passes CAP_NET_BIND_SERVICE on to a daemon that is not root.
//!
//! The monitor gives the capability to the launcher as an ambient one, which children inherit. If the launcher got it
//! in another way (capabilities of its file), it is put into the ambient set of the spawning thread during the spawn.

use std::io;

use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
use rustix::thread::{capability_is_in_ambient_set, configure_capability_in_ambient_set};

const NET_BIND_SERVICE: CapabilitySet = CapabilitySet::NET_BIND_SERVICE;

/// Runs `spawn` with the capability in the ambient set, if this process has it.
pub(super) fn with_bind_service<T>(spawn: impl FnOnce() -> T) -> T {
    let raised = raise().unwrap_or_else(|error| {
        tracing::debug!(%error, "CAP_NET_BIND_SERVICE cannot be passed on");
        false
    });
    let spawned = spawn();
    if raised {
        // Best effort: if this fails, the thread keeps a capability that the process has anyway.
        let _ = configure_capability_in_ambient_set(NET_BIND_SERVICE, false);
    }
    spawned
}

/// Puts the capability into the ambient set; false if it was there already or the process does not have it.
fn raise() -> io::Result<bool> {
    if capability_is_in_ambient_set(NET_BIND_SERVICE)? {
        return Ok(false);
    }
    let mut sets = capabilities(None)?;
    if !sets.permitted.contains(NET_BIND_SERVICE) {
        return Ok(false);
    }
    sets.inheritable |= NET_BIND_SERVICE;
    set_capabilities(None, sets)?;
    configure_capability_in_ambient_set(NET_BIND_SERVICE, true)?;
    Ok(true)
}
