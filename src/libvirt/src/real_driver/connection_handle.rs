//! An open connection: its keepalive, callbacks and end.

use std::ffi::c_int;
use std::sync::{Arc, Mutex, PoisonError};

use virt_sys as sys;

use super::c_strings_and_errors::{c_string, check, check_pointer};
use super::callback_registry::CallbackKey;
use super::event_callbacks;
use crate::error::{Result, code};
use crate::hypervisor_connection::KEEPALIVE;
use crate::subscribers::Subscribers;
use crate::subscription::EventHandler;

/// An open connection; closed when the last user has dropped it.
pub(super) struct Connection {
    raw: sys::virConnectPtr,
    subscribers: Arc<Subscribers>,
    /// The event callbacks' ids; none before the first subscription.
    callbacks: Mutex<Option<Vec<c_int>>>,
    /// The close callback's.
    end: Option<CallbackKey>,
}

// SAFETY: libvirt's connections may be used from any thread, by several at once.
unsafe impl Send for Connection {}
// SAFETY: as above.
unsafe impl Sync for Connection {}

impl Connection {
    pub(super) fn open(uri: &str) -> Result<Arc<Self>> {
        let name = c_string("URI", uri)?;
        // SAFETY: the name is NUL-terminated and lives during the call.
        let raw = check_pointer(unsafe { sys::virConnectOpen(name.as_ptr()) })?;
        let mut connection = Connection {
            raw,
            subscribers: Arc::default(),
            callbacks: Mutex::default(),
            end: None,
        };
        connection.keep_alive(uri)?;
        connection.watch_end()?;
        Ok(Arc::new(connection))
    }

    /// A daemon that stops answering ends the connection instead of hanging every call.
    fn keep_alive(&self, uri: &str) -> Result<()> {
        let (interval, count) = KEEPALIVE;
        let seconds = i32::try_from(interval.as_secs()).unwrap_or(i32::MAX);
        // SAFETY: the connection is open.
        match check(unsafe { sys::virConnectSetKeepAlive(self.raw, seconds, count) }) {
            Ok(0) => {}
            Ok(_) => tracing::debug!(uri, "the daemon knows no keepalive messages"),
            // A driver in this very process has nobody to keep alive.
            Err(error) if error.code == code::NO_SUPPORT => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn watch_end(&mut self) -> Result<()> {
        // SAFETY: the connection is open.
        self.end = Some(unsafe { event_callbacks::register_close(self.raw, &self.subscribers) }?);
        Ok(())
    }

    fn watch_domains(&self) -> Result<()> {
        let mut callbacks = self
            .callbacks
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if callbacks.is_none() {
            // SAFETY: the connection is open.
            *callbacks = Some(unsafe { event_callbacks::register(self.raw, &self.subscribers) }?);
        }
        Ok(())
    }

    /// Adds an event handler for as long as the result lives.
    pub(super) fn add_subscriber(&self, handler: EventHandler) -> Result<Arc<EventHandler>> {
        let handler = self.subscribers.add(handler);
        self.watch_domains()?;
        Ok(handler)
    }

    /// The pointer, for calls; valid while `self` is.
    pub(super) fn as_ptr(&self) -> sys::virConnectPtr {
        self.raw
    }

    pub(super) fn is_alive(&self) -> bool {
        // SAFETY: the connection is open.
        unsafe { sys::virConnectIsAlive(self.raw) == 1 }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let callbacks = self
            .callbacks
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
            .unwrap_or_default();
        // SAFETY: the connection is open; this is its last use, and that of its callbacks.
        unsafe {
            event_callbacks::deregister(self.raw, &callbacks);
            event_callbacks::unregister_close(self.raw);
            sys::virConnectClose(self.raw);
        }
        if let Some(end) = self.end {
            end.release();
        }
    }
}
