//! The values of libvirt's typed parameters (`virTypedParameter`).

use std::ffi::CStr;

/// One value of a libvirt typed parameter.
#[derive(Clone, Debug, PartialEq)]
pub enum ParamValue {
    /// A signed number, 32 or 64 bits.
    Signed(i64),
    /// An unsigned number, 32 or 64 bits.
    Unsigned(u64),
    /// A floating point number.
    Float(f64),
    /// A boolean.
    Bool(bool),
    /// A text.
    Text(String),
}

impl ParamValue {
    /// The value, if it is a number that is not negative.
    pub fn as_u64(&self) -> Option<u64> {
        match *self {
            ParamValue::Unsigned(value) => Some(value),
            ParamValue::Signed(value) => u64::try_from(value).ok(),
            ParamValue::Float(_) | ParamValue::Bool(_) | ParamValue::Text(_) => None,
        }
    }

    /// The value, if it is a number that an `i64` can hold.
    pub fn as_i64(&self) -> Option<i64> {
        match *self {
            ParamValue::Signed(value) => Some(value),
            ParamValue::Unsigned(value) => i64::try_from(value).ok(),
            ParamValue::Float(_) | ParamValue::Bool(_) | ParamValue::Text(_) => None,
        }
    }

    /// The value, if it is a text.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            ParamValue::Text(text) => Some(text),
            _ => None,
        }
    }
}

/// The value of the parameter with this name, if there is one.
pub(crate) fn find<'a>(params: &'a [(String, ParamValue)], name: &CStr) -> Option<&'a ParamValue> {
    let mut params = params.iter();
    let param = params.find(|(param_name, _)| param_name.as_bytes() == name.to_bytes());
    param.map(|(_, value)| value)
}
