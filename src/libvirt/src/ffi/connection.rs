//! A connection to libvirt.

use std::ffi::c_int;
use std::sync::{Arc, Mutex, PoisonError};

use virt_sys as sys;

use super::call::{self, c_string, check, check_pointer, optional_c_string, pointer};
use super::callbacks;
use super::event_loop;
use super::guest::RealGuest;
use super::targets::Key;
use crate::error::{Result, code};
use crate::event::{EventSink, Subscription};
use crate::hypervisor::{DomainKind, Guest, Hypervisor, KEEPALIVE, Version};
use crate::sinks::Sinks;

/// Opens a connection, e.g. to `qemu:///system` or `test:///default`.
///
/// The first one starts the event loop's thread. It blocks until the daemon has accepted: a
/// socket that is not there fails at once, a daemon that accepts but is stuck does not, so keep a
/// deadline around it.
pub fn connect(uri: &str) -> Result<Arc<dyn Hypervisor>> {
    event_loop::ensure()?;
    Ok(Arc::new(RealHypervisor(Connection::open(uri)?)))
}

/// An open connection; closed when the last user has dropped it.
pub(super) struct Connection {
    raw: sys::virConnectPtr,
    sinks: Arc<Sinks>,
    /// The event callbacks' ids; none before the first subscription.
    callbacks: Mutex<Option<Vec<c_int>>>,
    /// The close callback's.
    end: Option<Key>,
}

// SAFETY: libvirt's connections may be used from any thread, by several at once.
unsafe impl Send for Connection {}
// SAFETY: as above.
unsafe impl Sync for Connection {}

impl Connection {
    fn open(uri: &str) -> Result<Arc<Self>> {
        let name = c_string("URI", uri)?;
        // SAFETY: the name is NUL-terminated and lives during the call.
        let raw = check_pointer(unsafe { sys::virConnectOpen(name.as_ptr()) })?;
        let mut connection = Connection {
            raw,
            sinks: Arc::default(),
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
        self.end = Some(unsafe { callbacks::register_close(self.raw, &self.sinks) }?);
        Ok(())
    }

    fn watch_domains(&self) -> Result<()> {
        let mut callbacks = self
            .callbacks
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if callbacks.is_none() {
            // SAFETY: the connection is open.
            *callbacks = Some(unsafe { callbacks::register(self.raw, &self.sinks) }?);
        }
        Ok(())
    }

    /// The pointer, for calls; valid while `self` is.
    pub(super) fn as_ptr(&self) -> sys::virConnectPtr {
        self.raw
    }

    fn guest(self: &Arc<Self>, raw: sys::virDomainPtr) -> Result<Arc<dyn Guest>> {
        let raw = check_pointer(raw)?;
        // SAFETY: libvirt has just returned this domain of this connection, with a reference.
        let guest = unsafe { RealGuest::own(Arc::clone(self), raw) }?;
        Ok(Arc::new(guest))
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
            callbacks::deregister(self.raw, &callbacks);
            callbacks::unregister_close(self.raw);
            sys::virConnectClose(self.raw);
        }
        if let Some(end) = self.end {
            end.forget();
        }
    }
}

struct RealHypervisor(Arc<Connection>);

impl RealHypervisor {
    fn version_by(
        &self,
        ask: unsafe extern "C" fn(sys::virConnectPtr, *mut libc::c_ulong) -> c_int,
    ) -> Result<Version> {
        let mut packed = 0;
        // SAFETY: the connection is open and the result has a place to go.
        check(unsafe { ask(self.0.as_ptr(), &raw mut packed) })?;
        Ok(Version(packed))
    }
}

impl Hypervisor for RealHypervisor {
    fn lookup(&self, name: &str) -> Result<Option<Arc<dyn Guest>>> {
        let name = c_string("domain name", name)?;
        // SAFETY: the connection is open, the name NUL-terminated.
        let found = unsafe { sys::virDomainLookupByName(self.0.as_ptr(), name.as_ptr()) };
        match self.0.guest(found) {
            Ok(guest) => Ok(Some(guest)),
            Err(error) if error.is_no_domain() => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn define(&self, xml: &str) -> Result<Arc<dyn Guest>> {
        let xml = c_string("domain XML", xml)?;
        // SAFETY: the connection is open, the XML NUL-terminated.
        let raw = unsafe { sys::virDomainDefineXMLFlags(self.0.as_ptr(), xml.as_ptr(), 0) };
        self.0.guest(raw)
    }

    fn subscribe(&self, sink: EventSink) -> Result<Subscription> {
        let connection = Arc::clone(&self.0);
        let sink = connection.sinks.add(sink);
        connection.watch_domains()?;
        Ok(Subscription::new(move || drop((sink, connection))))
    }

    fn is_alive(&self) -> bool {
        // SAFETY: the connection is open.
        unsafe { sys::virConnectIsAlive(self.0.as_ptr()) == 1 }
    }

    fn version(&self) -> Result<Version> {
        self.version_by(sys::virConnectGetLibVersion)
    }

    fn qemu_version(&self) -> Result<Version> {
        self.version_by(sys::virConnectGetVersion)
    }

    fn capabilities_xml(&self) -> Result<String> {
        // SAFETY: the connection is open; the string it returns is the caller's.
        unsafe { call::take_string(sys::virConnectGetCapabilities(self.0.as_ptr())) }
    }

    fn domain_capabilities_xml(&self, of: DomainKind<'_>) -> Result<String> {
        let emulator = optional_c_string("emulator", of.emulator)?;
        let arch = optional_c_string("architecture", of.arch)?;
        let machine = optional_c_string("machine type", of.machine)?;
        let virt_type = optional_c_string("domain type", of.virt_type)?;
        // SAFETY: the connection is open, each text null or NUL-terminated and alive; the string
        // it returns is the caller's.
        unsafe {
            call::take_string(sys::virConnectGetDomainCapabilities(
                self.0.as_ptr(),
                pointer(&emulator),
                pointer(&arch),
                pointer(&machine),
                pointer(&virt_type),
                0,
            ))
        }
    }
}
