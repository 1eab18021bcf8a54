//! An open connection: its keepalive, its callbacks, and its closing.

use std::ffi::c_int;
use std::sync::{Arc, Mutex, PoisonError};

use virt_sys as sys;

use super::c_strings_and_errors::{c_string, check, check_pointer, copy_string};
use super::events;
use super::events::CallbackKey;
use crate::error::{Result, code};
use crate::event::{EventHandler, EventHandlers};
use crate::hypervisor_connection::KEEPALIVE;

/// An open connection. It is closed when the last reference is dropped.
pub(super) struct Connection {
    raw: sys::virConnectPtr,
    handlers: Arc<EventHandlers>,
    /// The ids of the event callbacks; `None` before the first subscription.
    event_callback_ids: Mutex<Option<Vec<c_int>>>,
    /// The key of the close callback.
    close_callback: Option<CallbackKey>,
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
            handlers: Arc::default(),
            event_callback_ids: Mutex::default(),
            close_callback: None,
        };
        connection.set_keepalive(uri)?;
        connection.register_close()?;
        Ok(Arc::new(connection))
    }

    /// Makes libvirt close the connection when the daemon stops answering; without that every call would hang.
    fn set_keepalive(&self, uri: &str) -> Result<()> {
        let (interval, count) = KEEPALIVE;
        let seconds = i32::try_from(interval.as_secs()).unwrap_or(i32::MAX);
        // SAFETY: the connection is open.
        match check(unsafe { sys::virConnectSetKeepAlive(self.raw, seconds, count) }) {
            Ok(0) => {}
            Ok(_) => tracing::debug!(uri, "the daemon knows no keepalive messages"),
            // A driver inside this process supports no keepalive.
            Err(error) if error.code == code::NO_SUPPORT => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn register_close(&mut self) -> Result<()> {
        // SAFETY: the connection is open.
        let key = unsafe { events::register_close(self.raw, &self.handlers) }?;
        self.close_callback = Some(key);
        Ok(())
    }

    fn register_events(&self) -> Result<()> {
        let mut ids = self
            .event_callback_ids
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if ids.is_none() {
            // SAFETY: the connection is open.
            *ids = Some(unsafe { events::register_events(self.raw, &self.handlers) }?);
        }
        Ok(())
    }

    /// Adds an event handler. It receives events as long as the result lives.
    pub(super) fn add_handler(&self, handler: EventHandler) -> Result<Arc<EventHandler>> {
        let handler = self.handlers.add(handler);
        self.register_events()?;
        Ok(handler)
    }

    /// The pointer for calls. It is valid as long as `self`.
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
        let ids = self
            .event_callback_ids
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
            .unwrap_or_default();
        // SAFETY: the connection is open; this is its last use, and that of its callbacks.
        unsafe {
            events::deregister_events(self.raw, &ids);
            events::unregister_close(self.raw);
            sys::virConnectClose(self.raw);
        }
        if let Some(key) = self.close_callback {
            key.release();
        }
    }
}

/// A reference to a domain and to its connection.
pub(super) struct RealDomain {
    connection: Arc<Connection>,
    raw: sys::virDomainPtr,
    name: String,
    uuid: String,
}

// SAFETY: libvirt's domain handles may be used from any thread, by several at once.
unsafe impl Send for RealDomain {}

// SAFETY: as above.
unsafe impl Sync for RealDomain {}

impl RealDomain {
    /// Takes over a reference to a domain.
    ///
    /// # Safety
    /// `raw` is a domain of `connection`, with a reference that the caller owns and gives away.
    pub(super) unsafe fn from_raw(
        connection: Arc<Connection>,
        raw: sys::virDomainPtr,
    ) -> Result<Self> {
        let mut domain = RealDomain {
            connection,
            raw,
            name: String::new(),
            uuid: String::new(),
        };
        // SAFETY: the domain is valid; its name lives as long as it does.
        domain.name = unsafe { copy_string(sys::virDomainGetName(raw)) };
        domain.uuid = domain.read_uuid()?;
        Ok(domain)
    }

    fn read_uuid(&self) -> Result<String> {
        let mut text = [0; sys::VIR_UUID_STRING_BUFLEN as usize];
        // SAFETY: the domain is valid, and the buffer has the size that libvirt asks for.
        check(unsafe { sys::virDomainGetUUIDString(self.raw, text.as_mut_ptr()) })?;
        // SAFETY: libvirt has written a NUL-terminated text into the buffer.
        Ok(unsafe { copy_string(text.as_ptr()) })
    }

    /// The domain's name.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The domain's UUID.
    pub(super) fn uuid(&self) -> &str {
        &self.uuid
    }

    /// The pointer for calls. It is valid as long as `self`.
    pub(super) fn as_ptr(&self) -> sys::virDomainPtr {
        self.raw
    }

    /// The domain's connection.
    pub(super) fn connection(&self) -> &Connection {
        &self.connection
    }
}

impl Drop for RealDomain {
    fn drop(&mut self) {
        // SAFETY: the reference is this handle's own, and this is its last use.
        unsafe { sys::virDomainFree(self.raw) };
    }
}
