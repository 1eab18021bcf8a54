//! Conversion of libvirt's typed parameters into Rust values.

use std::ffi::{c_char, c_int};

use virt_sys as sys;

use super::c_strings_and_errors::copy_string;
use crate::typed_params::ParamValue;

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
