//! A handle to a domain of a connection.

use std::sync::Arc;

use virt_sys as sys;

use super::c_strings_and_errors::{check, copy_string};
use super::connection_handle::Connection;
use crate::error::Result;

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
