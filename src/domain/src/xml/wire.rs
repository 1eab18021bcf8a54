//! What decides how a field appears in KubeVirt's JSON.

use serde::{Serialize, Serializer, ser::SerializeStruct};

/// A value that may be left out of the JSON. A null and an absent field decode the same, so
/// nil pointers and empty lists are not written at all; every other zero value is.
pub(crate) trait Wire: Serialize {
    /// True for what Go would print as `null`.
    fn is_null(&self) -> bool {
        false
    }
}

impl<T: Serialize> Wire for Option<T> {
    fn is_null(&self) -> bool {
        self.is_none()
    }
}

impl<T: Serialize> Wire for Vec<T> {
    fn is_null(&self) -> bool {
        self.is_empty()
    }
}

macro_rules! never_null {
    ($($name:ty)*) => {$( impl Wire for $name {} )*};
}
never_null!(String bool u32 u64 i32 i64);

/// Go's `XMLName`: the element's name once it was read from XML, empty before. It says nothing
/// about the element, so all are equal.
#[derive(Debug, Clone, Copy, Default)]
pub struct XmlName(pub(crate) &'static str);

impl PartialEq for XmlName {
    fn eq(&self, _other: &Self) -> bool {
        true
    }
}

impl Serialize for XmlName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut name = serializer.serialize_struct("XMLName", 2)?;
        name.serialize_field("Space", "")?;
        name.serialize_field("Local", self.0)?;
        name.end()
    }
}
