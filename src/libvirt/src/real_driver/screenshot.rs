//! The screenshot of a domain, which libvirt sends through a stream.

use virt_sys as sys;

use super::c_strings_and_errors::take_string;
use super::domain_handle::RealDomain;
use super::read_stream::ReadStream;
use crate::error::Result;
use crate::screenshot::{Screen, Screenshot};

impl Screen for RealDomain {
    fn screenshot(&self, limit: usize) -> Result<Screenshot> {
        let stream = ReadStream::new(self.connection())?;
        // SAFETY: domain and stream are valid and of one connection; the caller owns the media type.
        let mime = unsafe {
            take_string(sys::virDomainScreenshot(
                self.as_ptr(),
                stream.as_ptr(),
                0,
                0,
            ))
        }?;
        let data = stream.read(limit)?;
        Ok(Screenshot { mime, data })
    }
}
