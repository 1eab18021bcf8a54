//! Files that are not components, and section headers that are refused.

use std::io::Write;

use super::*;

fn flaw(bytes: &[u8]) -> Option<IncompleteComponent> {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    check_section_headers(&file, bytes.len() as u64).unwrap()
}

const COMPONENT: &[u8] = b"\0asm\x0d\0\x01\0";

#[test]
fn too_many_sections_are_refused() {
    let empty_sections = |sections| [COMPONENT, &[0, 0].repeat(sections)].concat();
    assert_eq!(flaw(&empty_sections(MAX_SECTIONS)), None);
    assert_eq!(
        flaw(&empty_sections(MAX_SECTIONS + 1)),
        Some(IncompleteComponent::Sections)
    );
    assert_eq!(
        flaw(&empty_sections(16 << 20)),
        Some(IncompleteComponent::Sections)
    );
}

#[test]
fn sections_across_reads_are_found() {
    // The file is long, so that section headers are within, before and across the parts that are read at once.
    for length in [
        0,
        1,
        1000,
        WINDOW_BYTES - 20,
        WINDOW_BYTES,
        3 * WINDOW_BYTES,
    ] {
        let content = vec![0xff; length];
        let encoded = [0x80, 0x80, 0x80, 0].iter().enumerate();
        let section_header = encoded.map(|(at, more)| ((length >> (7 * at)) & 0x7f) as u8 | more);
        let section: Vec<u8> = [0]
            .into_iter()
            .chain(section_header)
            .chain(content)
            .collect();
        let mut bytes = [COMPONENT, &section.repeat(200)].concat();
        assert_eq!(flaw(&bytes), None, "{length}");
        let end = bytes.len() as u64;
        bytes.push(0);
        assert!(
            matches!(flaw(&bytes), Some(IncompleteComponent::Truncated { section, .. }) if section == end),
            "{length}"
        );
    }
}

#[test]
fn files_that_are_not_components_have_an_error_that_says_what_they_are() {
    assert_eq!(flaw(b""), Some(IncompleteComponent::Empty));
    assert_eq!(
        flaw(b"\0asm\x01\0\0\0"),
        Some(IncompleteComponent::CoreModule)
    );
    let text = flaw(b"#!/bin/sh\n").unwrap().to_string();
    assert!(text.contains("#!/bin/s"), "{text}");
    assert!(
        flaw(b"\x7fELF\x02")
            .unwrap()
            .to_string()
            .contains("\\x7fELF")
    );
}

#[test]
fn another_encoding_is_distinguished_from_a_core_module() {
    for (bytes, version, layer) in [
        (b"\0asm\x0e\0\x01\0", 14, 1),
        (b"\0asm\x02\0\0\0", 2, 0),
        (b"\0asm\x0d\0\x02\0", 13, 2),
    ] {
        assert_eq!(
            flaw(bytes),
            Some(IncompleteComponent::OtherEncoding { version, layer })
        );
    }
}

#[test]
fn a_truncated_section_is_refused() {
    assert_eq!(flaw(COMPONENT), None);
    assert_eq!(flaw(&[COMPONENT, &[0, 3, 1, b'a', 9]].concat()), None);
    for cut in [&[0][..], &[0, 3], &[0, 0x80], &[0, 3, 1, b'a']] {
        let bytes = [COMPONENT, cut].concat();
        assert!(
            matches!(
                flaw(&bytes),
                Some(IncompleteComponent::Truncated { section: 8, .. })
            ),
            "{cut:?}"
        );
    }
    assert!(matches!(
        flaw(b"\0as"),
        Some(IncompleteComponent::Truncated { needed: 8, .. })
    ));
}
