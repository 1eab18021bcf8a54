//! The screenshot of a running domain.

use crate::error::Result;

/// A picture of a domain's screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Screenshot {
    /// The media type, e.g. `image/png`.
    pub mime: String,
    /// The picture.
    pub data: Vec<u8>,
}

/// The screen of a running domain.
pub trait Screen {
    /// A picture of the first screen; one of more than `limit` bytes is an error. Works while the domain is paused.
    fn screenshot(&self, limit: usize) -> Result<Screenshot>;
}
