//! Reads the structured replies of NBD's transmission phase.

use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;

use super::error::NbdError;

const REPLY_MAGIC: u32 = 0x668e_33ef;
const FLAG_DONE: u16 = 1;

const CHUNK_NONE: u16 = 0;
const CHUNK_OFFSET_DATA: u16 = 1;
const CHUNK_OFFSET_HOLE: u16 = 2;
const CHUNK_BLOCK_STATUS: u16 = 5;
const CHUNK_ERROR: u16 = 1 << 15;

/// Maximum size of a chunk. QEMU's largest map has 1 MiB; a request for data asks for less.
const MAX_CHUNK_BYTES: u32 = 2 << 20;

/// One chunk of a reply.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Chunk {
    /// An empty chunk.
    None,
    /// Data: offset and bytes.
    Data(u64, Vec<u8>),
    /// Zeroes: offset and length.
    Hole(u64, u32),
    /// The map in one context: id of the context, and pairs of length and flags.
    Map(u32, Vec<(u32, u32)>),
}

/// Reads the next chunk of the reply to the request with this cookie. Returns whether it is the last one.
pub(super) async fn read(stream: &mut UnixStream, cookie: u64) -> Result<(Chunk, bool), NbdError> {
    if stream.read_u32().await? != REPLY_MAGIC {
        return Err(NbdError::protocol("a reply that is not structured"));
    }
    let flags = stream.read_u16().await?;
    let kind = stream.read_u16().await?;
    if stream.read_u64().await? != cookie {
        return Err(NbdError::protocol("a reply to another request"));
    }
    let size = stream.read_u32().await?;
    if size > MAX_CHUNK_BYTES {
        return Err(NbdError::protocol(format!("a reply of {size} bytes")));
    }
    let mut data = vec![0; usize::try_from(size).unwrap_or_default()];
    stream.read_exact(&mut data).await?;
    Ok((parse(kind, data)?, flags & FLAG_DONE != 0))
}

fn parse(kind: u16, mut data: Vec<u8>) -> Result<Chunk, NbdError> {
    let short = || NbdError::protocol(format!("a reply of kind {kind} is too short"));
    match kind {
        CHUNK_NONE => Ok(Chunk::None),
        CHUNK_OFFSET_DATA => {
            let offset = u64::from_be_bytes(*data.first_chunk().ok_or_else(short)?);
            data.drain(..8);
            Ok(Chunk::Data(offset, data))
        }
        CHUNK_OFFSET_HOLE => {
            let (offset, rest) = data.split_first_chunk().ok_or_else(short)?;
            let length = rest.first_chunk().ok_or_else(short)?;
            Ok(Chunk::Hole(
                u64::from_be_bytes(*offset),
                u32::from_be_bytes(*length),
            ))
        }
        CHUNK_BLOCK_STATUS => {
            let (context, rest) = data.split_first_chunk().ok_or_else(short)?;
            let (extents, rest) = rest.as_chunks::<8>();
            if !rest.is_empty() || extents.is_empty() {
                return Err(short());
            }
            let extent = |[a, b, c, d, e, f, g, h]: &[u8; 8]| {
                let length = u32::from_be_bytes([*a, *b, *c, *d]);
                (length, u32::from_be_bytes([*e, *f, *g, *h]))
            };
            let extents = extents.iter().map(extent).collect();
            Ok(Chunk::Map(u32::from_be_bytes(*context), extents))
        }
        kind if kind & CHUNK_ERROR != 0 => {
            let (number, rest) = data.split_first_chunk().ok_or_else(short)?;
            let (length, text) = rest.split_first_chunk().ok_or_else(short)?;
            let length = usize::from(u16::from_be_bytes(*length)).min(text.len());
            Err(NbdError::Failed {
                number: u32::from_be_bytes(*number),
                reason: String::from_utf8_lossy(&text[..length]).into_owned(),
            })
        }
        kind => Err(NbdError::protocol(format!("a reply of kind {kind}"))),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn chunks_are_parsed() {
        let data = [&7u64.to_be_bytes()[..], b"xyz"].concat();
        assert_eq!(
            parse(CHUNK_OFFSET_DATA, data).unwrap(),
            Chunk::Data(7, b"xyz".to_vec())
        );
        let map = [3u32, 4096, 1, 512, 0].map(u32::to_be_bytes).concat();
        assert_eq!(
            parse(CHUNK_BLOCK_STATUS, map).unwrap(),
            Chunk::Map(3, vec![(4096, 1), (512, 0)])
        );
        let error = [&5u32.to_be_bytes()[..], &[0, 3], b"EIO more"].concat();
        assert_eq!(
            parse(CHUNK_ERROR | 1, error).unwrap_err().to_string(),
            "QEMU cannot serve the backup (error 5): EIO"
        );
    }

    proptest! {
        #[test]
        fn any_bytes_are_parsed_without_a_panic(kind: u16, data: Vec<u8>) {
            let _ = parse(kind, data);
        }
    }
}
