#![allow(clippy::unwrap_used)]
use proptest::prelude::*;

use super::*;

fn frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
    let [_, a, b, c] = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&[a, b, c, kind, flags, 0, 0, 0, 1], payload].concat()
}

fn literal(first: u8, value: &[u8]) -> Vec<u8> {
    [&[first, u8::try_from(value.len()).unwrap()], value].concat()
}

/// :method POST, :scheme http, :path /, and the rest.
fn block(authority: &[u8]) -> Vec<u8> {
    [&[0x83, 0x86, 0x84], authority, &[0x3f, 0xe1, 0x1f], &[0xbe]].concat()
}

fn through(input: &[&[u8]]) -> Vec<u8> {
    let mut filter = AuthorityFilter::default();
    let mut output = Vec::new();
    filter.feed(&[b'p'; PREFACE], &mut output);
    input.iter().for_each(|part| filter.feed(part, &mut output));
    output.split_off(PREFACE)
}

#[test]
fn every_form_of_a_literal_authority_is_replaced() {
    let path = b"/var/run/kubevirt/sockets/launcher-sock";
    let spelled_out = |first: u8| [&[first, 10], AUTHORITY, &[2], b"%2"].concat();
    let forms = [
        (literal(0x41, path), literal(0x41, b"-")),
        (literal(0x01, path), literal(0x01, b"-")),
        (literal(0x11, path), literal(0x11, b"-")),
        (
            spelled_out(0x40),
            [&[0x40, 10], AUTHORITY, &[1], b"-"].concat(),
        ),
        // Huffman-coded: the length's first bit is set.
        (vec![0x41, 0x82, 0xff, 0xff], literal(0x41, b"-")),
    ];
    for (sent, received) in forms {
        for (flags, prefix, padding) in [
            (END_HEADERS, &[][..], &[][..]),
            (END_HEADERS | PRIORITY, &[0, 0, 0, 0, 15], &[]),
            (END_HEADERS | PADDED, &[3], &[0, 0, 0]),
            (END_HEADERS | PADDED | PRIORITY, &[1, 0, 0, 0, 0, 15], &[0]),
        ] {
            let whole = |authority: &[u8]| {
                frame(
                    HEADERS,
                    flags,
                    &[prefix, &block(authority), padding].concat(),
                )
            };
            let data = frame(0, 1, b"\x41\x01/");
            let input = [whole(&sent), data.clone()].concat();
            assert_eq!(through(&[&input]), [whole(&received), data].concat());
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
        let sent = frame(HEADERS, END_HEADERS, payload);
        assert_eq!(through(&[&sent]), sent);
    }
    let padded = frame(HEADERS, END_HEADERS | PADDED, &[9, 0x82]);
    assert_eq!(through(&[&padded]), padded);
}

proptest! {
    #[test]
    fn result_does_not_depend_on_read_sizes(cuts in prop::collection::vec(0usize..200, 0..6)) {
        let frames = [
            frame(4, 0, &[]),
            frame(HEADERS, END_HEADERS, &block(&literal(0x41, b"/a/b"))),
            frame(0, 0, &[7; 100]),
            frame(HEADERS, 0, &block(&literal(0x41, b"/a/b"))),
            frame(HEADERS, END_HEADERS, &block(&[0xbe])),
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
        prop_assert_eq!(through(&parts), through(&[&frames]));
    }

    #[test]
    fn any_input_is_kept_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let mut filter = AuthorityFilter::default();
        let mut output = Vec::new();
        filter.feed(&bytes, &mut output);
        prop_assert!(output.len() + filter.pending.len() <= bytes.len());
    }
}
