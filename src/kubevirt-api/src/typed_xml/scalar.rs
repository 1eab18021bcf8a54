//! Scalar values: strings, booleans and integers in an attribute or in an element's text.

use std::borrow::Cow;

/// A value that is written as text.
pub trait Scalar: Default {
    /// Whether this is Go's zero value, which `when set` leaves out.
    fn is_zero(&self) -> bool;
    /// The value as text; `None` if an optional value is absent.
    fn text(&self) -> Option<Cow<'_, str>>;
    /// Parses the text; `None` if it is not a value of this type.
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
