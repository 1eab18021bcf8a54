//! The limits above which a document is refused: bytes, depth, nodes, elements.

/// The deepest tree that is accepted, whatever [`Limits::depth`] is.
pub const MAX_DEPTH: usize = 512;

/// The limits above which a document is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
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

impl Limits {
    /// No limits but [`MAX_DEPTH`], for text that was accepted before.
    #[must_use]
    pub fn unlimited() -> Self {
        Limits {
            bytes: usize::MAX,
            depth: MAX_DEPTH,
            nodes: usize::MAX,
            elements: usize::MAX,
        }
    }

    /// The same limits with another number of bytes.
    #[must_use]
    pub fn with_bytes(self, bytes: usize) -> Self {
        Limits { bytes, ..self }
    }

    /// The same limits with another depth.
    #[must_use]
    pub fn with_depth(self, depth: usize) -> Self {
        Limits { depth, ..self }
    }

    /// The same limits with another number of nodes.
    #[must_use]
    pub fn with_nodes(self, nodes: usize) -> Self {
        Limits { nodes, ..self }
    }

    /// The same limits with another number of elements.
    #[must_use]
    pub fn with_elements(self, elements: usize) -> Self {
        Limits { elements, ..self }
    }
}
