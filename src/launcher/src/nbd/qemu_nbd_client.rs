//! A client of QEMU's NBD server, connected to one export.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

const REQUEST_MAGIC: u32 = 0x2560_9513;
const COMMAND_READ: u16 = 0;
const COMMAND_BLOCK_STATUS: u16 = 7;
/// How long QEMU may take for an answer. A request reads 256 KiB at most, or the map of a part of the disk.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// The longest range for which one request asks for the map: a multiple of every block size, below the protocol's 4
/// GiB.
const MAX_MAP_BYTES: u64 = 2 << 30;

/// The map in one context: pairs of length and flags, from the requested offset on.
pub(super) type Map = Vec<(u32, u32)>;

/// A connection to one export.
#[derive(Debug)]
pub(super) struct NbdClient {
    stream: UnixStream,
    size: u64,
    contexts: Vec<u32>,
    last_cookie: u64,
}

impl NbdClient {
    /// Connects and opens the export, with these contexts for its maps.
    pub(super) async fn connect(
        socket: &Path,
        export: &str,
        contexts: &[String],
    ) -> Result<NbdClient, NbdError> {
        with_timeout(async {
            let stream = UnixStream::connect(socket).await;
            let mut stream = stream.map_err(|source| NbdError::Connect {
                path: socket.to_owned(),
                source,
            })?;
            let negotiated = negotiate(&mut stream, export, contexts).await?;
            Ok(NbdClient {
                stream,
                size: negotiated.size,
                contexts: negotiated.contexts,
                last_cookie: 0,
            })
        })
        .await
    }

    /// The end of a request for `length` bytes from `offset` on. A length of 0, or one behind the end of the export,
    /// requests everything.
    pub(super) fn end(&self, offset: u64, length: u64) -> Result<u64, NbdError> {
        if offset >= self.size {
            return Err(NbdError::BeyondEnd {
                offset,
                size: self.size,
            });
        }
        let end = offset.checked_add(length).filter(|end| *end <= self.size);
        Ok(end.filter(|_| length > 0).unwrap_or(self.size))
    }

    /// Reads `length` bytes.
    pub(super) async fn read(&mut self, offset: u64, length: u32) -> Result<Vec<u8>, NbdError> {
        with_timeout(async {
            let cookie = self.send(COMMAND_READ, offset, length).await?;
            let mut data = vec![0; usize::try_from(length).unwrap_or_default()];
            let mut missing = data.len();
            loop {
                let (chunk, is_last) = read_reply(&mut self.stream, cookie).await?;
                match chunk {
                    Chunk::Data(at, bytes) => {
                        requested_range(&mut data, offset, at, bytes.len())?
                            .copy_from_slice(&bytes);
                        missing = missing.saturating_sub(bytes.len());
                    }
                    Chunk::Hole(at, length) => {
                        let length = usize::try_from(length).unwrap_or(usize::MAX);
                        requested_range(&mut data, offset, at, length)?.fill(0);
                        missing = missing.saturating_sub(length);
                    }
                    Chunk::None => {}
                    Chunk::Map(..) => return Err(NbdError::protocol("a map instead of data")),
                }
                if is_last {
                    return match missing {
                        0 => Ok(data),
                        missing => Err(NbdError::protocol(format!("{missing} bytes are missing"))),
                    };
                }
            }
        })
        .await
    }

    /// The maps of the contexts from `offset` on, in their order. Each map covers at least one block and may end before
    /// `end`, each at a different offset.
    pub(super) async fn map(&mut self, offset: u64, end: u64) -> Result<Vec<Map>, NbdError> {
        let length = u32::try_from((end - offset).min(MAX_MAP_BYTES)).unwrap_or(u32::MAX);
        with_timeout(async {
            let cookie = self.send(COMMAND_BLOCK_STATUS, offset, length).await?;
            let mut maps = vec![Map::new(); self.contexts.len()];
            loop {
                let (chunk, is_last) = read_reply(&mut self.stream, cookie).await?;
                match chunk {
                    Chunk::Map(context, map) => {
                        let index = self.contexts.iter().position(|id| *id == context);
                        let index =
                            index.ok_or_else(|| NbdError::protocol("an unknown context"))?;
                        maps[index] = map;
                    }
                    Chunk::None => {}
                    _ => return Err(NbdError::protocol("data instead of a map")),
                }
                if is_last {
                    return Ok(maps);
                }
            }
        })
        .await
    }

    /// Sends a request, and returns its cookie.
    async fn send(&mut self, kind: u16, offset: u64, length: u32) -> Result<u64, NbdError> {
        self.last_cookie += 1;
        let mut message = REQUEST_MAGIC.to_be_bytes().to_vec();
        message.extend(0u16.to_be_bytes());
        message.extend(kind.to_be_bytes());
        message.extend(self.last_cookie.to_be_bytes());
        message.extend(offset.to_be_bytes());
        message.extend(length.to_be_bytes());
        self.stream.write_all(&message).await?;
        Ok(self.last_cookie)
    }
}

/// The part of the requested data, which begin at `begin`, that a chunk at `at` fills.
fn requested_range(
    data: &mut [u8],
    begin: u64,
    at: u64,
    length: usize,
) -> Result<&mut [u8], NbdError> {
    let from = at
        .checked_sub(begin)
        .and_then(|at| usize::try_from(at).ok());
    let range = from.and_then(|from| Some(from..from.checked_add(length)?));
    let range = range.and_then(|range| data.get_mut(range));
    range.ok_or_else(|| NbdError::protocol("data that were not asked for"))
}

async fn with_timeout<T>(work: impl Future<Output = Result<T, NbdError>>) -> Result<T, NbdError> {
    let result = tokio::time::timeout(ANSWER_TIMEOUT, work).await;
    result.unwrap_or(Err(NbdError::Timeout(ANSWER_TIMEOUT)))
}

const SERVER_MAGIC: u64 = 0x4e42_444d_4147_4943;
const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// Flags of the handshake, the same ones for server and client.
const FIXED_NEWSTYLE: u16 = 1;
const NO_ZEROES: u16 = 2;
const OPTION_GO: u32 = 7;
const OPTION_STRUCTURED_REPLY: u32 = 8;
const OPTION_SET_META_CONTEXT: u32 = 10;
const REPLY_ACK: u32 = 1;
const REPLY_INFO: u32 = 3;
const REPLY_META_CONTEXT: u32 = 4;
const REPLY_ERROR: u32 = 1 << 31;
/// The type of the information block with the export's size.
const INFO_EXPORT: u16 = 0;
/// Maximum size of a reply. QEMU's replies have a few dozen bytes, and texts of at most 4 KiB.
const MAX_REPLY_BYTES: u32 = 64 << 10;
/// Maximum length of a name in the protocol.
const MAX_NAME_BYTES: usize = 4096;

/// The result of the handshake.
#[derive(Debug)]
pub(super) struct NegotiatedExport {
    /// The export's size in bytes.
    pub(super) size: u64,
    /// The ids of the requested contexts, in their order.
    pub(super) contexts: Vec<u32>,
}

/// Opens the export, with these contexts for its maps.
pub(super) async fn negotiate(
    stream: &mut UnixStream,
    export: &str,
    contexts: &[String],
) -> Result<NegotiatedExport, NbdError> {
    if export.len() > MAX_NAME_BYTES || contexts.iter().any(|name| name.len() > MAX_NAME_BYTES) {
        return Err(NbdError::protocol("a name has more than 4096 bytes"));
    }
    read_greeting(stream).await?;
    send_option(stream, OPTION_STRUCTURED_REPLY, &[]).await?;
    read_until_ack(stream, export, OPTION_STRUCTURED_REPLY, |_, _| Ok(())).await?;
    let contexts = match contexts.is_empty() {
        true => Vec::new(),
        false => set_contexts(stream, export, contexts).await?,
    };
    let size = go(stream, export).await?;
    Ok(NegotiatedExport { size, contexts })
}

async fn read_greeting(stream: &mut UnixStream) -> Result<(), NbdError> {
    if stream.read_u64().await? != SERVER_MAGIC || stream.read_u64().await? != OPTION_MAGIC {
        return Err(NbdError::protocol("it is not an NBD server"));
    }
    let offered = stream.read_u16().await?;
    if offered & FIXED_NEWSTYLE == 0 || offered & NO_ZEROES == 0 {
        return Err(NbdError::protocol("it is an old NBD server"));
    }
    stream
        .write_u32(u32::from(FIXED_NEWSTYLE | NO_ZEROES))
        .await?;
    Ok(())
}

/// Selects the contexts, and returns their ids.
async fn set_contexts(
    stream: &mut UnixStream,
    export: &str,
    contexts: &[String],
) -> Result<Vec<u32>, NbdError> {
    let mut data = encode_name(export);
    data.extend(length(contexts.len()));
    for context in contexts {
        data.extend(encode_name(context));
    }
    send_option(stream, OPTION_SET_META_CONTEXT, &data).await?;
    let mut ids: Vec<(String, u32)> = Vec::new();
    read_until_ack(stream, export, OPTION_SET_META_CONTEXT, |kind, data| {
        if kind == REPLY_META_CONTEXT
            && let Some((id, name)) = data.split_first_chunk::<4>()
        {
            if ids.len() == contexts.len() {
                return Err(NbdError::protocol(
                    "it answers more contexts than were asked for",
                ));
            }
            let name = String::from_utf8_lossy(name).into_owned();
            ids.push((name, u32::from_be_bytes(*id)));
        }
        Ok(())
    })
    .await?;
    let id = |context: &String| {
        let id = ids.iter().find(|(name, _)| name == context);
        id.map(|(_, id)| *id)
            .ok_or_else(|| NbdError::NoContext(context.clone()))
    };
    contexts.iter().map(id).collect()
}

/// Ends the handshake, and returns the export's size.
async fn go(stream: &mut UnixStream, export: &str) -> Result<u64, NbdError> {
    let mut data = encode_name(export);
    data.extend(0u16.to_be_bytes());
    send_option(stream, OPTION_GO, &data).await?;
    let mut size = None;
    read_until_ack(stream, export, OPTION_GO, |kind, data| {
        if kind == REPLY_INFO
            && let Some((info_type, data)) = data.split_first_chunk::<2>()
            && u16::from_be_bytes(*info_type) == INFO_EXPORT
        {
            size = data
                .first_chunk::<8>()
                .map(|size| u64::from_be_bytes(*size));
        }
        Ok(())
    })
    .await?;
    size.ok_or_else(|| NbdError::protocol("the export has no size"))
}

async fn send_option(stream: &mut UnixStream, option: u32, data: &[u8]) -> Result<(), NbdError> {
    let mut message = OPTION_MAGIC.to_be_bytes().to_vec();
    message.extend(option.to_be_bytes());
    message.extend(length(data.len()));
    message.extend(data);
    stream.write_all(&message).await?;
    Ok(())
}

/// Reads the replies to an option up to the acknowledgement.
async fn read_until_ack(
    stream: &mut UnixStream,
    export: &str,
    option: u32,
    mut reply: impl FnMut(u32, &[u8]) -> Result<(), NbdError>,
) -> Result<(), NbdError> {
    loop {
        if stream.read_u64().await? != OPTION_REPLY_MAGIC || stream.read_u32().await? != option {
            return Err(NbdError::protocol("a reply to another option"));
        }
        let kind = stream.read_u32().await?;
        let size = stream.read_u32().await?;
        if size > MAX_REPLY_BYTES {
            return Err(NbdError::protocol(format!("a reply of {size} bytes")));
        }
        let mut data = vec![0; usize::try_from(size).unwrap_or_default()];
        stream.read_exact(&mut data).await?;
        match kind {
            REPLY_ACK => return Ok(()),
            kind if kind & REPLY_ERROR != 0 => {
                let text = String::from_utf8_lossy(&data);
                return Err(NbdError::Refused {
                    export: export.to_owned(),
                    reason: match text.is_empty() {
                        true => format!("error {}", kind & !REPLY_ERROR),
                        false => text.into_owned(),
                    },
                });
            }
            kind => reply(kind, &data)?,
        }
    }
}

fn encode_name(name: &str) -> Vec<u8> {
    let mut data = length(name.len()).to_vec();
    data.extend(name.as_bytes());
    data
}

/// Encodes a length. The callers' names and lists are far below the limit of `u32`.
fn length(length: usize) -> [u8; 4] {
    u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes()
}

const STRUCTURED_REPLY_MAGIC: u32 = 0x668e_33ef;
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
pub(super) async fn read_reply(
    stream: &mut UnixStream,
    cookie: u64,
) -> Result<(Chunk, bool), NbdError> {
    if stream.read_u32().await? != STRUCTURED_REPLY_MAGIC {
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

/// Reading the backup from QEMU's NBD server failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NbdError {
    /// Connecting to the socket failed.
    #[error("connecting to the backup at {path}: {source}")]
    Connect {
        /// The socket.
        path: PathBuf,
        /// The error of the socket.
        source: io::Error,
    },
    /// The connection broke.
    #[error("the connection to the backup broke: {0}")]
    Io(#[from] io::Error),
    /// QEMU gave no answer in time.
    #[error("QEMU gave no answer about the backup within {0:?}")]
    Timeout(Duration),
    /// The gRPC client has stopped reading.
    #[error("the client of the backup has read nothing for {0:?}")]
    ClientStopped(Duration),
    /// QEMU's answer violates the NBD protocol.
    #[error("QEMU's answer about the backup is not understood: {0}")]
    Protocol(String),
    /// QEMU refuses an option of the handshake, for example since there is no such export.
    #[error("QEMU refuses export {export:?}: {reason}")]
    Refused {
        /// The export's name.
        export: String,
        /// QEMU's reason.
        reason: String,
    },
    /// QEMU answered a request with an error.
    #[error("QEMU cannot serve the backup (error {number}): {reason}")]
    Failed {
        /// The protocol's error number.
        number: u32,
        /// QEMU's reason.
        reason: String,
    },
    /// The export has no such context, for example since the bitmap does not exist.
    #[error("server does not support requested context: {0}")]
    NoContext(String),
    /// The request begins behind the end of the export.
    #[error("offset {offset} is beyond export size {size}")]
    BeyondEnd {
        /// The requested offset.
        offset: u64,
        /// The export's size.
        size: u64,
    },
}

impl NbdError {
    pub(super) fn protocol(what: impl Into<String>) -> NbdError {
        NbdError::Protocol(what.into())
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
