//! Opening a connection, and the calls on it.

use std::ffi::c_int;
use std::ptr;
use std::sync::Arc;

use virt_sys as sys;

use super::c_strings_and_errors::{c_string, check, check_pointer};
use super::handles::{Connection, RealDomain};
use super::{domain, events};
use crate::domain::{Domain, SevInfo};
use crate::error::Result;
use crate::event::{EventHandler, Subscription};
use crate::hypervisor_connection::{HypervisorConnection, Version};

/// Opens a connection, e.g. to `qemu:///system` or `test:///default`.
///
/// The first call starts the event loop's thread. The call blocks until the daemon has answered. It fails at once if
/// the socket is missing, but not if the daemon accepts the connection and is stuck: callers need a deadline around it.
pub fn connect(uri: &str) -> Result<Arc<dyn HypervisorConnection>> {
    events::start_event_loop_once()?;
    Ok(Arc::new(RealConnection(Connection::open(uri)?)))
}

/// The version of the library that this program is linked with at run time. Needs no daemon. The daemons of an image
/// have the same version.
pub fn library_version() -> Result<Version> {
    let mut packed = 0;
    // SAFETY: the pointer to the result is valid; without a driver's name, nothing is written to the third argument.
    check(unsafe { sys::virGetVersion(&raw mut packed, ptr::null(), ptr::null_mut()) })?;
    Ok(Version(packed))
}

struct RealConnection(Arc<Connection>);

impl RealConnection {
    fn domain(&self, raw: sys::virDomainPtr) -> Result<Arc<dyn Domain>> {
        let raw = check_pointer(raw)?;
        // SAFETY: libvirt has just returned this domain of this connection, with a reference.
        let domain = unsafe { RealDomain::from_raw(Arc::clone(&self.0), raw) }?;
        Ok(Arc::new(domain))
    }

    fn read_version(
        &self,
        call: unsafe extern "C" fn(sys::virConnectPtr, *mut libc::c_ulong) -> c_int,
    ) -> Result<Version> {
        let mut packed = 0;
        // SAFETY: the connection is open, and the pointer to the result is valid.
        check(unsafe { call(self.0.as_ptr(), &raw mut packed) })?;
        Ok(Version(packed))
    }
}

impl HypervisorConnection for RealConnection {
    fn lookup(&self, name: &str) -> Result<Option<Arc<dyn Domain>>> {
        let name = c_string("domain name", name)?;
        // SAFETY: the connection is open, the name NUL-terminated.
        let raw = unsafe { sys::virDomainLookupByName(self.0.as_ptr(), name.as_ptr()) };
        match self.domain(raw) {
            Ok(domain) => Ok(Some(domain)),
            Err(error) if error.is_no_domain() => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn define(&self, xml: &str) -> Result<Arc<dyn Domain>> {
        let xml = c_string("domain XML", xml)?;
        // SAFETY: the connection is open, the XML NUL-terminated.
        let raw = unsafe { sys::virDomainDefineXMLFlags(self.0.as_ptr(), xml.as_ptr(), 0) };
        self.domain(raw)
    }

    fn subscribe(&self, handler: EventHandler) -> Result<Subscription> {
        let connection = Arc::clone(&self.0);
        let handler = connection.add_handler(handler)?;
        Ok(Subscription::new(move || drop((handler, connection))))
    }

    fn is_alive(&self) -> bool {
        self.0.is_alive()
    }

    fn version(&self) -> Result<Version> {
        self.read_version(sys::virConnectGetLibVersion)
    }

    fn qemu_version(&self) -> Result<Version> {
        self.read_version(sys::virConnectGetVersion)
    }

    fn sev_info(&self) -> Result<SevInfo> {
        domain::sev_info(&self.0)
    }
}
