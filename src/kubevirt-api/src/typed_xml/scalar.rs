//! Values that fit in an attribute or in an element's text.

use std::borrow::Cow;

/// A value written as one piece of text.
pub trait Scalar: Default {
    /// What Go calls the zero value: left out where the table says "when set".
    fn is_zero(&self) -> bool;
    /// The text, or nothing when there is no value at all (`None`).
    fn text(&self) -> Option<Cow<'_, str>>;
    /// Reads the text; `None` when it is not such a value.
    fn from_text(text: &str) -> Option<Self>;
}

impl Scalar for String {
    fn is_zero(&self) -> bool {
        self.is_empty()
    }
    fn text(&self) -> Option<Cow<'_, str>> {
        Some(Cow::Borrowed(self))
    }
    fn from_text(text: &str) -> Option<Self> {
        Some(text.to_owned())
    }
}

impl Scalar for bool {
    fn is_zero(&self) -> bool {
        !*self
    }
    fn text(&self) -> Option<Cow<'_, str>> {
        Some(Cow::Borrowed(if *self { "true" } else { "false" }))
    }
    fn from_text(text: &str) -> Option<Self> {
        match text.trim() {
            "true" | "1" => Some(true),
            "false" | "0" | "" => Some(false),
            _ => None,
        }
    }
}

macro_rules! integers {
    ($($int:ty)*) => {$(
        impl Scalar for $int {
            fn is_zero(&self) -> bool {
                *self == 0
            }
            fn text(&self) -> Option<Cow<'_, str>> {
                Some(Cow::Owned(self.to_string()))
            }
            fn from_text(text: &str) -> Option<Self> {
                match text.trim() {
                    "" => Some(0),
                    text => text.parse().ok(),
                }
            }
        }
    )*};
}
integers!(u32 u64 i32 i64);

/// A Go pointer: present even when its value is zero.
impl<T: Scalar> Scalar for Option<T> {
    fn is_zero(&self) -> bool {
        self.is_none()
    }
    fn text(&self) -> Option<Cow<'_, str>> {
        self.as_ref().and_then(Scalar::text)
    }
    fn from_text(text: &str) -> Option<Self> {
        T::from_text(text).map(Some)
    }
}
