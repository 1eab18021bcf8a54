//! Conversions of libvirt's C strings and return values, and the error of a failed call.

use std::ffi::{CStr, CString, c_char, c_int, c_void};

use virt_sys as sys;

use crate::error::{Error, Result, code, origin};

/// The text as a C string. `name` is the argument's name for the error about a NUL byte.
pub(super) fn c_string(name: &str, text: &str) -> Result<CString> {
    CString::new(text)
        .map_err(|_| Error::invalid_argument(&format!("the {name} contains a NUL byte")))
}

/// The result of a call that returns a number: libvirt returns a negative number on failure.
pub(super) fn check(returned: c_int) -> Result<c_int> {
    if returned < 0 {
        return Err(last_error());
    }
    Ok(returned)
}

/// The result of a call that returns a pointer: libvirt returns null on failure.
pub(super) fn check_pointer<T>(returned: *mut T) -> Result<*mut T> {
    if returned.is_null() {
        return Err(last_error());
    }
    Ok(returned)
}

/// Copies and frees a text that libvirt allocated for the caller.
///
/// # Safety
/// `returned` is null or a NUL-terminated string from libvirt that the caller owns.
pub(super) unsafe fn take_string(returned: *mut c_char) -> Result<String> {
    let owned = check_pointer(returned)?;
    // SAFETY: the caller vouches for a NUL-terminated string; it is freed only below.
    let text = unsafe { copy_string(owned) };
    // SAFETY: libvirt allocates with malloc, the string is ours, and it is not used again.
    unsafe { libc::free(owned.cast::<c_void>()) };
    Ok(text)
}

/// A copy of a text that libvirt keeps; empty for null.
///
/// # Safety
/// `borrowed` is null or a NUL-terminated string that lives during the call.
pub(super) unsafe fn copy_string(borrowed: *const c_char) -> String {
    if borrowed.is_null() {
        return String::new();
    }
    // SAFETY: not null, and the caller vouches for the rest.
    let text = unsafe { CStr::from_ptr(borrowed) };
    text.to_string_lossy().into_owned()
}

/// The error of the call that has just failed. libvirt keeps it per thread: this must run on the thread of that call,
/// before the next call.
pub(super) fn last_error() -> Error {
    // SAFETY: no arguments; the result is null or this thread's error, which lives until this
    // thread's next libvirt call.
    let raw = unsafe { sys::virGetLastError() };
    // SAFETY: see above: null or valid, and nothing calls libvirt while it is borrowed.
    let Some(error) = (unsafe { raw.as_ref() }) else {
        return Error {
            code: code::INTERNAL_ERROR,
            domain: origin::NONE,
            message: "an error was reported, but its cause is unknown".into(),
        };
    };
    Error {
        code: error.code,
        domain: error.domain,
        // SAFETY: the message is null or a NUL-terminated string owned by the error.
        message: unsafe { copy_string(error.message) },
    }
}

/// libvirt's error callback. Without it libvirt prints every error on stderr, although the call returns the error too.
unsafe extern "C" fn ignore(_user_data: *mut c_void, _error: sys::virErrorPtr) {}

/// Stops libvirt from printing errors.
pub(super) fn disable_error_output() {
    // SAFETY: the handler has the expected signature, takes no user data and lives for ever.
    unsafe { sys::virSetErrorFunc(std::ptr::null_mut(), Some(ignore)) };
}
