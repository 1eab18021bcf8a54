//! A client of QEMU's NBD server, connected to one export.

use std::path::Path;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;

use super::error::NbdError;
use super::handshake;
use super::structured_replies::{self, Chunk};

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
            let negotiated = handshake::negotiate(&mut stream, export, contexts).await?;
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
                let (chunk, is_last) = structured_replies::read(&mut self.stream, cookie).await?;
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
                let (chunk, is_last) = structured_replies::read(&mut self.stream, cookie).await?;
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
