//! A libvirt stream that is read to its end.

use std::ffi::c_char;

use virt_sys as sys;

use super::c_strings_and_errors::{check_pointer, last_error};
use super::connection_handle::Connection;
use crate::error::{Error, Result, code, origin};

/// The most that libvirt puts into one message of a stream.
const CHUNK: usize = 256 * 1024;

/// A blocking stream. Dropping it ends it, complete or not.
pub(super) struct Stream {
    raw: sys::virStreamPtr,
    complete: bool,
}

impl Stream {
    pub(super) fn new(connection: &Connection) -> Result<Stream> {
        // SAFETY: the connection is open; the stream keeps a reference of its own to it.
        let raw = check_pointer(unsafe { sys::virStreamNew(connection.as_ptr(), 0) })?;
        Ok(Stream {
            raw,
            complete: false,
        })
    }

    /// The pointer, for the call that fills the stream; valid while `self` is.
    pub(super) fn as_ptr(&self) -> sys::virStreamPtr {
        self.raw
    }

    /// Everything until the stream's end, at most `limit` bytes.
    pub(super) fn read(mut self, limit: usize) -> Result<Vec<u8>> {
        let mut data = Vec::new();
        let mut chunk = vec![0_u8; CHUNK];
        loop {
            // SAFETY: the stream is valid, and the buffer has as many bytes as the length says.
            let count = unsafe {
                sys::virStreamRecv(self.raw, chunk.as_mut_ptr().cast::<c_char>(), chunk.len())
            };
            let count = usize::try_from(count).map_err(|_| last_error())?;
            if count == 0 {
                break;
            }
            data.extend_from_slice(chunk.get(..count).unwrap_or_default());
            if data.len() > limit {
                return Err(Error {
                    code: code::OPERATION_FAILED,
                    domain: origin::NONE,
                    message: format!("operation failed: more than {limit} bytes were sent"),
                });
            }
        }
        self.complete = true;
        // SAFETY: the stream is valid and was read to its end.
        match unsafe { sys::virStreamFinish(self.raw) } {
            0.. => Ok(data),
            _ => Err(last_error()),
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if !self.complete {
            // SAFETY: the stream is valid; aborting one that nothing was sent on only returns an error.
            unsafe { sys::virStreamAbort(self.raw) };
        }
        // SAFETY: the reference is this value's own, and this is its last use.
        unsafe { sys::virStreamFree(self.raw) };
    }
}
