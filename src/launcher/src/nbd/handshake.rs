//! NBD's handshake: fixed newstyle, with structured replies.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use super::error::NbdError;

const MAGIC: u64 = 0x4e42_444d_4147_4943;
const OPTION: u64 = 0x4948_4156_454f_5054;
const REPLY: u64 = 0x0003_e889_0455_65a9;
/// Flags of server and client alike.
const FIXED_NEWSTYLE: u16 = 1;
const NO_ZEROES: u16 = 2;

const GO: u32 = 7;
const STRUCTURED_REPLY: u32 = 8;
const SET_META_CONTEXT: u32 = 10;

const ACK: u32 = 1;
const INFO: u32 = 3;
const META_CONTEXT: u32 = 4;
const ERROR: u32 = 1 << 31;
/// The kind of the information that has the export's size.
const INFO_EXPORT: u16 = 0;

/// QEMU's replies have a few dozen bytes, and texts of at most 4 KiB.
const LARGEST_REPLY: u32 = 64 << 10;
/// Longer names are none of the protocol.
const LONGEST_NAME: usize = 4096;

/// What was agreed upon.
#[derive(Debug)]
pub(super) struct Agreement {
    /// The export's size in bytes.
    pub(super) size: u64,
    /// The numbers of the contexts, in the order in which they were asked for.
    pub(super) contexts: Vec<u32>,
}

/// Opens the export with these contexts of its map.
pub(super) async fn negotiate(
    stream: &mut UnixStream,
    export: &str,
    contexts: &[String],
) -> Result<Agreement, NbdError> {
    if export.len() > LONGEST_NAME || contexts.iter().any(|name| name.len() > LONGEST_NAME) {
        return Err(NbdError::protocol("a name has more than 4096 bytes"));
    }
    read_greeting(stream).await?;
    option(stream, STRUCTURED_REPLY, &[]).await?;
    until_ack(stream, export, STRUCTURED_REPLY, |_, _| Ok(())).await?;
    let contexts = match contexts.is_empty() {
        true => Vec::new(),
        false => set_contexts(stream, export, contexts).await?,
    };
    let size = go(stream, export).await?;
    Ok(Agreement { size, contexts })
}

async fn read_greeting(stream: &mut UnixStream) -> Result<(), NbdError> {
    if stream.read_u64().await? != MAGIC || stream.read_u64().await? != OPTION {
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
    option(stream, SET_META_CONTEXT, &data).await?;
    let mut known: Vec<(String, u32)> = Vec::new();
    until_ack(stream, export, SET_META_CONTEXT, |kind, data| {
        if kind == META_CONTEXT
            && let Some((number, name)) = data.split_first_chunk::<4>()
        {
            if known.len() == contexts.len() {
                return Err(NbdError::protocol(
                    "it answers more contexts than were asked for",
                ));
            }
            let name = String::from_utf8_lossy(name).into_owned();
            known.push((name, u32::from_be_bytes(*number)));
        }
        Ok(())
    })
    .await?;
    let number = |context: &String| {
        let number = known.iter().find(|(name, _)| name == context);
        number
            .map(|(_, number)| *number)
            .ok_or_else(|| NbdError::NoContext(context.clone()))
    };
    contexts.iter().map(number).collect()
}

async fn go(stream: &mut UnixStream, export: &str) -> Result<u64, NbdError> {
    let mut data = encode_name(export);
    data.extend(0u16.to_be_bytes());
    option(stream, GO, &data).await?;
    let mut size = None;
    until_ack(stream, export, GO, |kind, data| {
        if kind == INFO
            && let Some((of, data)) = data.split_first_chunk::<2>()
            && u16::from_be_bytes(*of) == INFO_EXPORT
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

async fn option(stream: &mut UnixStream, option: u32, data: &[u8]) -> Result<(), NbdError> {
    let mut message = OPTION.to_be_bytes().to_vec();
    message.extend(option.to_be_bytes());
    message.extend(length(data.len()));
    message.extend(data);
    stream.write_all(&message).await?;
    Ok(())
}

/// Reads the replies to an option up to the acknowledgement.
async fn until_ack(
    stream: &mut UnixStream,
    export: &str,
    option: u32,
    mut reply: impl FnMut(u32, &[u8]) -> Result<(), NbdError>,
) -> Result<(), NbdError> {
    loop {
        if stream.read_u64().await? != REPLY || stream.read_u32().await? != option {
            return Err(NbdError::protocol("a reply to another option"));
        }
        let kind = stream.read_u32().await?;
        let size = stream.read_u32().await?;
        if size > LARGEST_REPLY {
            return Err(NbdError::protocol(format!("a reply of {size} bytes")));
        }
        let mut data = vec![0; usize::try_from(size).unwrap_or_default()];
        stream.read_exact(&mut data).await?;
        match kind {
            ACK => return Ok(()),
            kind if kind & ERROR != 0 => {
                let text = String::from_utf8_lossy(&data);
                return Err(NbdError::Refused {
                    export: export.to_owned(),
                    reason: match text.is_empty() {
                        true => format!("error {}", kind & !ERROR),
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

/// Names and lists are limited above.
fn length(length: usize) -> [u8; 4] {
    u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes()
}
