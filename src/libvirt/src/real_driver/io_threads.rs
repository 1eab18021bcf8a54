//! IO threads of a domain.

use virt_sys as sys;

use super::c_strings_and_errors::check;
use super::devices::affect_flags;
use super::domain_handle::RealDomain;
use crate::devices::Affect;
use crate::error::Result;
use crate::io_threads::IoThreads;

impl IoThreads for RealDomain {
    fn add_io_thread(&self, id: u32, to: Affect) -> Result<()> {
        // SAFETY: the domain is valid.
        check(unsafe { sys::virDomainAddIOThread(self.as_ptr(), id, affect_flags(to)) }).map(drop)
    }
}
