/// No tree is read deeper than this, whatever [`Limits::depth`] says.
pub const MAX_DEPTH: usize = 512;

/// What a document may cost before it is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of text. Default 8 MiB.
    pub bytes: usize,
    /// Elements inside each other, the root being 1. Default 128; capped at [`MAX_DEPTH`].
    pub depth: usize,
    /// Elements, attributes, texts and comments together. Default 262144.
    pub nodes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            bytes: 8 << 20,
            depth: 128,
            nodes: 1 << 18,
        }
    }
}
