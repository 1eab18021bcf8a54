/// The deepest tree that is accepted, whatever [`Limits::depth`] is.
pub const MAX_DEPTH: usize = 512;

/// The limits above which a document is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of text. Default 8 MiB.
    pub bytes: usize,
    /// Nesting of elements; the root is 1. Default 128; capped at [`MAX_DEPTH`].
    pub depth: usize,
    /// Elements, attributes, texts and comments together. Default 262144.
    pub nodes: usize,
    /// Elements. Default 262144, as many as nodes.
    pub elements: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            bytes: 8 << 20,
            depth: 128,
            nodes: 1 << 18,
            elements: 1 << 18,
        }
    }
}
