//! Fields of KubeVirt's JSON as Go's encoder writes them: which are left out, and `XMLName`.

use serde::{Serialize, Serializer, ser::SerializeStruct};

/// A field of the JSON. Go decodes null and an absent field to the same value, so nil pointers and empty lists are left
/// out; every other zero value is written.
pub trait JsonField: Serialize {
    /// Whether Go would write `null`.
    fn is_null(&self) -> bool {
        false
    }
}

impl<T: Serialize> JsonField for Option<T> {
    fn is_null(&self) -> bool {
        self.is_none()
    }
}

impl<T: Serialize> JsonField for Vec<T> {
    fn is_null(&self) -> bool {
        self.is_empty()
    }
}

macro_rules! never_null {
    ($($name:ty)*) => {$( impl JsonField for $name {} )*};
}
never_null!(String bool u32 u64 i32 i64);

/// Go's `XMLName`: the element's name if the element was read from XML, else empty. All values compare equal, because
/// elements are equal whether they were read from XML or not.
#[derive(Debug, Clone, Copy, Default)]
pub struct XmlName(&'static str);

impl XmlName {
    /// The name of an element that was read from XML.
    pub fn new(name: &'static str) -> Self {
        Self(name)
    }
}

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
