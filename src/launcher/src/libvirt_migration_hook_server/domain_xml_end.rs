//! Detects the end of a domain's XML in a stream that stays open. Pure.

use domain_xml::Document;

const END_TAG: &[u8] = b"</domain>";

/// Whether the bytes are a complete document. The end tag alone is not enough, since metadata may contain it too.
pub(super) fn is_complete(bytes: &[u8]) -> bool {
    bytes.trim_ascii_end().ends_with(END_TAG)
        && std::str::from_utf8(bytes).is_ok_and(|text| Document::parse(text).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn document_ends_with_its_root_element() {
        let xml = b"<?virt-hook reads-refusals?><domain><metadata><x:domain xmlns:x='y'></x:domain><domain></domain>\
            </metadata></domain>\n";
        assert!(is_complete(xml));
        let inner = xml.windows(END_TAG.len()).position(|part| part == END_TAG);
        assert!(!is_complete(&xml[..inner.unwrap_or(0) + END_TAG.len()]));
        assert!(!is_complete(b"") && !is_complete(b"<domain"));
    }
}
