//! Splits the input of a fuzz target into documents and texts.

use domain_xml::Document;

pub fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}

pub fn document(bytes: &[u8]) -> Option<Document> {
    Document::parse(text(bytes)?).ok()
}

/// Two documents with a zero byte between them.
pub fn two_documents(bytes: &[u8]) -> Option<(Document, Document)> {
    let (before, after) = halves(bytes);
    Some((document(before)?, document(after)?))
}

/// What is before and after the first zero byte.
pub fn halves(bytes: &[u8]) -> (&[u8], &[u8]) {
    match bytes.iter().position(|byte| *byte == 0) {
        Some(at) => (&bytes[..at], &bytes[at + 1..]),
        None => (bytes, &[]),
    }
}
