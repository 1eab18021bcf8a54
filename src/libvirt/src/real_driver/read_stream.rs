//! A libvirt stream that delivers data, such as a screenshot.

use std::ffi::c_char;

use virt_sys as sys;

use super::c_strings_and_errors::{check_pointer, last_error};
use super::connection_handle::Connection;
use crate::error::{Error, Result, code, origin};

/// Maximum payload of one message of a stream, in bytes.
const CHUNK_SIZE: usize = 256 * 1024;

/// A blocking stream. Dropping it aborts the stream if it was not read to its end.
pub(super) struct ReadStream {
    raw: sys::virStreamPtr,
    complete: bool,
}

impl ReadStream {
    pub(super) fn new(connection: &Connection) -> Result<ReadStream> {
        // SAFETY: the connection is open; the stream keeps its own reference to it.
        let raw = check_pointer(unsafe { sys::virStreamNew(connection.as_ptr(), 0) })?;
        Ok(ReadStream {
            raw,
            complete: false,
        })
    }

    /// The pointer for the call that fills the stream. It is valid as long as `self`.
    pub(super) fn as_ptr(&self) -> sys::virStreamPtr {
        self.raw
    }

    /// Reads the stream to its end. Fails if it has more than `limit` bytes.
    pub(super) fn read(mut self, limit: usize) -> Result<Vec<u8>> {
        let mut data = Vec::new();
        let mut chunk = vec![0_u8; CHUNK_SIZE];
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

impl Drop for ReadStream {
    fn drop(&mut self) {
        if !self.complete {
            // SAFETY: the stream is valid; aborting a stream without data only returns an error.
            unsafe { sys::virStreamAbort(self.raw) };
        }
        // SAFETY: the reference is this value's own, and this is its last use.
        unsafe { sys::virStreamFree(self.raw) };
    }
}
