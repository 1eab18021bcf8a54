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
    /// A picture of the first screen, also while the domain is paused. Fails if the picture has more than `limit`
    /// bytes.
    fn screenshot(&self, limit: usize) -> Result<Screenshot>;
}
