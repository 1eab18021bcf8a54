//! Requests whose `:authority` is not a host name.
//!
//! On a Unix socket `:authority` means nothing, and gRPC clients put there what they have: the path
//! of the socket, as it is or percent-encoded. `h2` resets such streams with PROTOCOL_ERROR and has no
//! switch for it, so every literal `:authority` is replaced before `h2` reads it.
//!
//! HPACK is a table that both sides keep. A literal is replaced by one that is not longer, in the same
//! encoding: the receiver's table then has the same entries at the same places, its entry is only
//! smaller, so it never forgets one that the sender still refers to.

#[cfg(test)]
mod tests;

/// The client's first bytes, before its first frame.
const PREFACE: usize = 24;
const FRAME_HEADER: usize = 9;
/// h2 accepts no larger frame, and refuses larger ones itself.
const LARGEST_FRAME: usize = 16 * 1024;
const HEADERS: u8 = 1;
const END_HEADERS: u8 = 0x4;
const PADDED: u8 = 0x8;
const PRIORITY: u8 = 0x20;
/// `:authority` in HPACK's static table.
const AUTHORITY_INDEX: usize = 1;
const AUTHORITY: &[u8] = b":authority";
/// The value given to h2: a string of one byte, not Huffman-coded.
const REPLACEMENT: [u8; 2] = [1, b'-'];

/// The bytes of one connection on their way to h2.
#[derive(Debug)]
pub(super) struct AuthorityFilter {
    /// Bytes to pass unchanged: the preface, then frames other than HEADERS.
    skip: usize,
    /// The beginning of a frame.
    pending: Vec<u8>,
}

impl Default for AuthorityFilter {
    fn default() -> Self {
        AuthorityFilter {
            skip: PREFACE,
            pending: Vec::new(),
        }
    }
}

impl AuthorityFilter {
    /// Accepts more bytes and appends complete frames to `output`.
    pub(super) fn feed(&mut self, mut input: &[u8], output: &mut Vec<u8>) {
        while !input.is_empty() {
            if self.skip > 0 {
                let (passed, rest) = input.split_at(self.skip.min(input.len()));
                output.extend_from_slice(passed);
                self.skip -= passed.len();
                input = rest;
                continue;
            }
            let missing = self.bytes_needed().saturating_sub(self.pending.len());
            let (consumed, rest) = input.split_at(missing.min(input.len()));
            self.pending.extend_from_slice(consumed);
            input = rest;
            self.finish_frame(output);
        }
    }

    /// The number of bytes of a frame that are needed next.
    fn bytes_needed(&self) -> usize {
        match FrameHeader::parse(&self.pending) {
            Some(header) if header.is_block() => FRAME_HEADER + header.length,
            _ => FRAME_HEADER,
        }
    }

    fn finish_frame(&mut self, output: &mut Vec<u8>) {
        let Some(header) = FrameHeader::parse(&self.pending) else {
            return;
        };
        if !header.is_block() {
            output.append(&mut self.pending);
            self.skip = header.length;
        } else if self.pending.len() == FRAME_HEADER + header.length {
            match rewrite_frame(&self.pending, header.flags) {
                Some(frame) => output.extend(frame),
                // h2 reports what is wrong.
                None => output.append(&mut self.pending),
            }
            self.pending.clear();
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct FrameHeader {
    length: usize,
    kind: u8,
    flags: u8,
}

impl FrameHeader {
    fn parse(bytes: &[u8]) -> Option<FrameHeader> {
        match *bytes {
            [a, b, c, kind, flags, _, _, _, _, ..] => Some(FrameHeader {
                length: usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c),
                kind,
                flags,
            }),
            _ => None,
        }
    }

    /// A whole block of headers in one frame. One that goes on in CONTINUATION frames holds more
    /// than 16 KiB, which no client of the launcher sends; it passes as it is.
    fn is_block(&self) -> bool {
        self.kind == HEADERS && self.flags & END_HEADERS != 0 && self.length <= LARGEST_FRAME
    }
}

fn rewrite_frame(frame: &[u8], flags: u8) -> Option<Vec<u8>> {
    let (head, payload) = frame.split_at_checked(FRAME_HEADER)?;
    let mut prefix = 0;
    let mut padding = 0;
    if flags & PADDED != 0 {
        padding = usize::from(*payload.first()?);
        prefix += 1;
    }
    if flags & PRIORITY != 0 {
        prefix += 5;
    }
    let (prefix, rest) = payload.split_at_checked(prefix)?;
    let (block, padding) = rest.split_at_checked(rest.len().checked_sub(padding)?)?;
    let block = rewrite_block(block)?;
    let length = prefix.len() + block.len() + padding.len();
    let [_, a, b, c] = u32::try_from(length).ok()?.to_be_bytes();
    let mut frame = vec![a, b, c];
    frame.extend_from_slice(head.get(3..)?);
    frame.extend_from_slice(prefix);
    frame.extend(block);
    frame.extend_from_slice(padding);
    Some(frame)
}

/// A block of headers with another `:authority`; `None` when it is malformed.
fn rewrite_block(block: &[u8]) -> Option<Vec<u8>> {
    let mut output = Vec::with_capacity(block.len());
    let mut rest = block;
    while let Some(&first) = rest.first() {
        let begin = rest;
        // RFC 7541, section 6: indexed; literal added to the table; table size; literal not added.
        let name_bits = match first {
            0x80.. => {
                (_, rest) = integer(rest, 7)?;
                output.extend_from_slice(consumed(begin, rest));
                continue;
            }
            0x40.. => 6,
            0x20.. => {
                (_, rest) = integer(rest, 5)?;
                output.extend_from_slice(consumed(begin, rest));
                continue;
            }
            _ => 4,
        };
        let index;
        (index, rest) = integer(rest, name_bits)?;
        let mut is_authority = index == AUTHORITY_INDEX;
        if index == 0 {
            let name;
            (name, rest) = string(rest)?;
            is_authority = name == AUTHORITY;
        }
        output.extend_from_slice(consumed(begin, rest));
        let before_value = rest;
        let value;
        (value, rest) = string(rest)?;
        // An empty one is the client's fault, and would become longer.
        if is_authority && !value.is_empty() {
            output.extend_from_slice(&REPLACEMENT);
        } else {
            output.extend_from_slice(consumed(before_value, rest));
        }
    }
    Some(output)
}

/// What of `whole` was read when `rest` is left.
fn consumed<'a>(whole: &'a [u8], rest: &[u8]) -> &'a [u8] {
    let length = whole.len().saturating_sub(rest.len());
    whole.get(..length).unwrap_or_default()
}

/// RFC 7541, section 5.1.
fn integer(bytes: &[u8], prefix_bits: u8) -> Option<(usize, &[u8])> {
    let (&first, mut rest) = bytes.split_first()?;
    let largest = (1usize << prefix_bits) - 1;
    let mut value = usize::from(first) & largest;
    if value < largest {
        return Some((value, rest));
    }
    for shift in [0, 7, 14, 21] {
        let byte;
        (byte, rest) = rest.split_first().map(|(byte, rest)| (*byte, rest))?;
        value += usize::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some((value, rest));
        }
    }
    None
}

/// RFC 7541, section 5.2: the string as it is coded.
fn string(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = integer(bytes, 7)?;
    rest.split_at_checked(length)
}
