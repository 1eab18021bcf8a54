//! Tests of replacing the `:authority` of HTTP/2 requests.

use proptest::prelude::*;

use super::*;

fn frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
    let [_, a, b, c] = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&[a, b, c, kind, flags, 0, 0, 0, 1], payload].concat()
}

fn literal(first: u8, value: &[u8]) -> Vec<u8> {
    [&[first, u8::try_from(value.len()).unwrap()], value].concat()
}

/// A block with `:method` POST, `:scheme` http, `:path` /, the authority, a change of the table's size and an indexed
/// header.
fn block(authority: &[u8]) -> Vec<u8> {
    [&[0x83, 0x86, 0x84], authority, &[0x3f, 0xe1, 0x1f], &[0xbe]].concat()
}

fn filter(input: &[&[u8]]) -> Vec<u8> {
    let mut filter = AuthorityFilter::default();
    let mut output = Vec::new();
    filter.feed(&[b'p'; PREFACE_BYTES], &mut output);
    input.iter().for_each(|part| filter.feed(part, &mut output));
    output.split_off(PREFACE_BYTES)
}

#[test]
fn every_form_of_a_literal_authority_is_replaced() {
    let path = b"/var/run/kubevirt/sockets/launcher-sock";
    let literal_name = |first: u8| [&[first, 10], AUTHORITY_NAME, &[2], b"%2"].concat();
    let forms = [
        (literal(0x41, path), literal(0x41, b"-")),
        (literal(0x01, path), literal(0x01, b"-")),
        (literal(0x11, path), literal(0x11, b"-")),
        (
            literal_name(0x40),
            [&[0x40, 10], AUTHORITY_NAME, &[1], b"-"].concat(),
        ),
        // A Huffman-coded string: the first bit of its length is set.
        (vec![0x41, 0x82, 0xff, 0xff], literal(0x41, b"-")),
    ];
    for (sent, received) in forms {
        for (flags, prefix, padding) in [
            (FLAG_END_HEADERS, &[][..], &[][..]),
            (FLAG_END_HEADERS | FLAG_PRIORITY, &[0, 0, 0, 0, 15], &[]),
            (FLAG_END_HEADERS | FLAG_PADDED, &[3], &[0, 0, 0]),
            (
                FLAG_END_HEADERS | FLAG_PADDED | FLAG_PRIORITY,
                &[1, 0, 0, 0, 0, 15],
                &[0],
            ),
        ] {
            let headers_frame = |authority: &[u8]| {
                frame(
                    FRAME_TYPE_HEADERS,
                    flags,
                    &[prefix, &block(authority), padding].concat(),
                )
            };
            let data = frame(0, 1, b"\x41\x01/");
            let input = [headers_frame(&sent), data.clone()].concat();
            assert_eq!(filter(&[&input]), [headers_frame(&received), data].concat());
        }
    }
}

#[test]
fn malformed_input_passes_unchanged() {
    for payload in [
        &[0x41, 0x7f][..],
        &[0x41, 5, b'a'],
        &[0xff, 0x80, 0x80, 0x80, 0x80, 0x80],
        &[0x41],
        &[0x41, 0],
    ] {
        let sent = frame(FRAME_TYPE_HEADERS, FLAG_END_HEADERS, payload);
        assert_eq!(filter(&[&sent]), sent);
    }
    let padded = frame(
        FRAME_TYPE_HEADERS,
        FLAG_END_HEADERS | FLAG_PADDED,
        &[9, 0x82],
    );
    assert_eq!(filter(&[&padded]), padded);
}

proptest! {
    #[test]
    fn result_does_not_depend_on_read_sizes(cuts in prop::collection::vec(0usize..200, 0..6)) {
        let frames = [
            frame(4, 0, &[]),
            frame(FRAME_TYPE_HEADERS, FLAG_END_HEADERS, &block(&literal(0x41, b"/a/b"))),
            frame(0, 0, &[7; 100]),
            frame(FRAME_TYPE_HEADERS, 0, &block(&literal(0x41, b"/a/b"))),
            frame(FRAME_TYPE_HEADERS, FLAG_END_HEADERS, &block(&[0xbe])),
        ].concat();
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(frames.len())).collect();
        cuts.sort_unstable();
        let mut parts = Vec::new();
        let mut begin = 0;
        for cut in cuts {
            parts.push(&frames[begin..cut]);
            begin = cut;
        }
        parts.push(&frames[begin..]);
        prop_assert_eq!(filter(&parts), filter(&[&frames]));
    }

    #[test]
    fn any_input_is_filtered_without_a_panic_or_growth(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let mut filter = AuthorityFilter::default();
        let mut output = Vec::new();
        filter.feed(&bytes, &mut output);
        prop_assert!(output.len() + filter.pending.len() <= bytes.len());
    }
}
