//! NBD's handshake (fixed newstyle, with structured replies).

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use super::error::NbdError;

const SERVER_MAGIC: u64 = 0x4e42_444d_4147_4943;
const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
const REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
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
        if stream.read_u64().await? != REPLY_MAGIC || stream.read_u32().await? != option {
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
