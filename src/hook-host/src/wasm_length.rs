//! Lengths in the binary format of WebAssembly.

/// Decodes a u32. Returns the value and the length of its encoding; `None` if the encoding is not complete.
pub(crate) fn leb128(bytes: &[u8]) -> Option<(u32, u64)> {
    let mut value = 0_u32;
    for (index, byte) in bytes.iter().enumerate().take(5) {
        value |= u32::from(byte & 0x7f).checked_shl(7 * index as u32)?;
        if byte & 0x80 == 0 {
            return Some((value, index as u64 + 1));
        }
    }
    None
}
