//! A list of typed parameters that libvirt allocates: to pass to a call, or to receive from one.

use std::ffi::{CStr, c_char, c_int};

use virt_sys as sys;

use super::c_strings_and_errors::{c_string, check, copy_string};
use crate::error::Result;
use crate::typed_params::ParamValue;

/// The list. A name may appear several times. Dropping the list frees it with all its texts.
pub(super) struct TypedParamList {
    list: sys::virTypedParameterPtr,
    count: c_int,
    capacity: c_int,
}

impl TypedParamList {
    /// An empty list.
    pub(super) fn new() -> Result<TypedParamList> {
        // libvirt's functions for lists clear the thread's last error. Before `virInitialize`, which also the first
        // connection calls, that is another library's thread-local value, and libvirt crashes.
        // SAFETY: no arguments; initialising more than once is allowed.
        check(unsafe { sys::virInitialize() })?;
        Ok(TypedParamList {
            list: std::ptr::null_mut(),
            count: 0,
            capacity: 0,
        })
    }

    /// Appends a text.
    pub(super) fn add_text(&mut self, name: &CStr, value: &str) -> Result<()> {
        let value = c_string(&name.to_string_lossy(), value)?;
        // SAFETY: the three fields describe one list that libvirt allocated, or an empty one; name and value are
        // NUL-terminated, and libvirt copies both.
        check(unsafe {
            sys::virTypedParamsAddString(
                &raw mut self.list,
                &raw mut self.count,
                &raw mut self.capacity,
                name.as_ptr(),
                value.as_ptr(),
            )
        })
        .map(drop)
    }

    /// Appends an unsigned number of 64 bits.
    pub(super) fn add_u64(&mut self, name: &CStr, value: u64) -> Result<()> {
        // SAFETY: as in `add_text`.
        check(unsafe {
            sys::virTypedParamsAddULLong(
                &raw mut self.list,
                &raw mut self.count,
                &raw mut self.capacity,
                name.as_ptr(),
                value,
            )
        })
        .map(drop)
    }

    /// Appends a signed number of 32 bits.
    pub(super) fn add_i32(&mut self, name: &CStr, value: i32) -> Result<()> {
        // SAFETY: as in `add_text`.
        check(unsafe {
            sys::virTypedParamsAddInt(
                &raw mut self.list,
                &raw mut self.count,
                &raw mut self.capacity,
                name.as_ptr(),
                value,
            )
        })
        .map(drop)
    }

    /// Pointers to which a call writes the list that it allocates, and its length. They are valid as long as `self`,
    /// which must be empty.
    pub(super) fn receive(&mut self) -> (*mut sys::virTypedParameterPtr, *mut c_int) {
        debug_assert!(self.list.is_null(), "the previous list would leak");
        (&raw mut self.list, &raw mut self.count)
    }

    /// Copies of the parameters.
    pub(super) fn copy(&self) -> Vec<(String, ParamValue)> {
        // SAFETY: libvirt has set as many parameters as it counts; they live as long as `self`.
        unsafe { copy(self.list, self.count) }
    }

    /// The list for a call, and its length. Both are valid as long as `self`.
    pub(super) fn as_ptr(&mut self) -> (sys::virTypedParameterPtr, u32) {
        (self.list, u32::try_from(self.count).unwrap_or(0))
    }
}

impl Drop for TypedParamList {
    fn drop(&mut self) {
        // SAFETY: the list is libvirt's with `count` parameters, or null, and not used again.
        unsafe { sys::virTypedParamsFree(self.list, self.count) };
    }
}

/// Copies an array of typed parameters. Parameters with types of a newer libvirt are skipped.
///
/// # Safety
/// `params` points to `count` initialised parameters (or `count` is zero) that live during the
/// call.
pub(super) unsafe fn copy(
    params: *const sys::virTypedParameter,
    count: c_int,
) -> Vec<(String, ParamValue)> {
    let count = usize::try_from(count).unwrap_or(0);
    if params.is_null() || count == 0 {
        return Vec::new();
    }
    // SAFETY: not null, and the caller vouches for the length.
    let params = unsafe { std::slice::from_raw_parts(params, count) };
    params
        .iter()
        .filter_map(|param| {
            // SAFETY: the caller vouches that every parameter is initialised.
            let value = unsafe { value(param) }?;
            Some((name(&param.field), value))
        })
        .collect()
}

fn name(field: &[c_char]) -> String {
    let bytes: Vec<u8> = field
        .iter()
        .take_while(|&&byte| byte != 0)
        // `c_char` is signed on amd64 and unsigned on arm64.
        .map(|&byte| u8::from_ne_bytes(byte.to_ne_bytes()))
        .collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// # Safety
/// `param` was filled in by libvirt: its type says which member of the union is set.
unsafe fn value(param: &sys::virTypedParameter) -> Option<ParamValue> {
    let value = &param.value;
    let kind = param.type_.cast_unsigned();
    // SAFETY: each arm reads the member that the type tag names; a string is null or
    // NUL-terminated and owned by the parameter.
    Some(unsafe {
        match kind {
            sys::VIR_TYPED_PARAM_INT => ParamValue::Signed(value.i.into()),
            sys::VIR_TYPED_PARAM_UINT => ParamValue::Unsigned(value.ui.into()),
            sys::VIR_TYPED_PARAM_LLONG => ParamValue::Signed(value.l),
            sys::VIR_TYPED_PARAM_ULLONG => ParamValue::Unsigned(value.ul),
            sys::VIR_TYPED_PARAM_DOUBLE => ParamValue::Float(value.d),
            sys::VIR_TYPED_PARAM_BOOLEAN => ParamValue::Bool(value.b != 0),
            sys::VIR_TYPED_PARAM_STRING => ParamValue::Text(copy_string(value.s)),
            _ => return None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_kept_in_order_and_may_repeat() {
        let mut params = TypedParamList::new().unwrap();
        params.add_text(c"migrate_disks", "vda").unwrap();
        params.add_text(c"migrate_disks", "vdb").unwrap();
        params.add_u64(c"bandwidth", 10).unwrap();
        params.add_i32(c"parallel.connections", 8).unwrap();
        let text = |text: &str| ParamValue::Text(text.into());
        assert_eq!(
            params.copy(),
            [
                ("migrate_disks".to_owned(), text("vda")),
                ("migrate_disks".to_owned(), text("vdb")),
                ("bandwidth".to_owned(), ParamValue::Unsigned(10)),
                ("parallel.connections".to_owned(), ParamValue::Signed(8)),
            ]
        );
    }

    #[test]
    fn error_about_a_nul_byte_names_the_parameter() {
        let mut params = TypedParamList::new().unwrap();
        let error = params.add_text(c"destination_xml", "<a\0/>");
        assert!(
            error
                .unwrap_err()
                .message
                .contains("the destination_xml contains")
        );
    }
}
