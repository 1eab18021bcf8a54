//! The values of libvirt's typed parameters (`virTypedParameter`).

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
    /// The value as an unsigned number, when it is one.
    pub fn as_u64(&self) -> Option<u64> {
        match *self {
            ParamValue::Unsigned(value) => Some(value),
            ParamValue::Signed(value) => u64::try_from(value).ok(),
            ParamValue::Float(_) | ParamValue::Bool(_) | ParamValue::Text(_) => None,
        }
    }

    /// The value as a signed number, when it is one.
    pub fn as_i64(&self) -> Option<i64> {
        match *self {
            ParamValue::Signed(value) => Some(value),
            ParamValue::Unsigned(value) => i64::try_from(value).ok(),
            ParamValue::Float(_) | ParamValue::Bool(_) | ParamValue::Text(_) => None,
        }
    }

    /// The value as a text, when it is one.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            ParamValue::Text(text) => Some(text),
            _ => None,
        }
    }
}
