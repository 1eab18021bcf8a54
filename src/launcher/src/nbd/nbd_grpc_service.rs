//! The gRPC service `kubevirt.nbd.NBD`. Each call opens its own connection to QEMU.
//!
//! Data are read from QEMU only as fast as the client reads: at most one message is queued.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use proto::nbd::nbd_server::Nbd;
use proto::nbd::{DataChunk, MapRequest, MapResponse, ReadRequest};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

use super::extent_batches::{ExtentBatches, MapKind};
use super::qemu_nbd_client::{NbdClient, NbdError};

/// Size of the data in one message.
const CHUNK_BYTES: u64 = 256 << 10;
/// How many messages may wait for the client.
const MAX_QUEUED_MESSAGES: usize = 1;
/// A call whose client reads nothing for this long is ended, to release its connection to QEMU.
const CLIENT_READ_TIMEOUT: Duration = Duration::from_secs(300);
const ALLOCATION_CONTEXT: &str = "base:allocation";

type Sender<T> = mpsc::Sender<Result<T, Status>>;
type Stream<T> = ReceiverStream<Result<T, Status>>;

/// Serves the exports of QEMU's NBD server on a socket.
#[derive(Debug, Clone)]
pub(crate) struct NbdService {
    socket: Arc<PathBuf>,
}

impl NbdService {
    /// A service for the NBD server on `socket`.
    pub(crate) fn new(socket: PathBuf) -> NbdService {
        NbdService {
            socket: Arc::new(socket),
        }
    }
}

#[tonic::async_trait]
impl Nbd for NbdService {
    type MapStream = Stream<MapResponse>;
    type ReadStream = Stream<DataChunk>;

    async fn map(&self, request: Request<MapRequest>) -> Result<Response<Self::MapStream>, Status> {
        let socket = Arc::clone(&self.socket);
        let request = request.into_inner();
        Ok(stream(async move |sender| {
            map(&socket, request, sender).await
        }))
    }

    async fn read(
        &self,
        request: Request<ReadRequest>,
    ) -> Result<Response<Self::ReadStream>, Status> {
        let socket = Arc::clone(&self.socket);
        let request = request.into_inner();
        Ok(stream(async move |sender| {
            read(&socket, request, sender).await
        }))
    }
}

/// Runs `serve` until it has sent everything or the client has disconnected.
fn stream<T, F, R>(serve: F) -> Response<Stream<T>>
where
    T: Send + 'static,
    F: FnOnce(Sender<T>) -> R + Send + 'static,
    R: Future<Output = Result<(), NbdError>> + Send + 'static,
{
    let (sender, received) = mpsc::channel(MAX_QUEUED_MESSAGES);
    tokio::spawn(async move {
        let errors = sender.clone();
        tokio::select! {
            () = errors.closed() => {}
            result = serve(sender) => if let Err(error) = result {
                tracing::warn!(reason = %error, "a client of a backup is refused");
                // The connection to QEMU is closed already; a client that does not read keeps only its queued messages.
                let _ = errors.send(Err(Status::unknown(error.to_string()))).await;
            }
        }
    });
    Response::new(ReceiverStream::new(received))
}

/// Queues a message, once the client has read enough. A client that has disconnected is no error: its call ends anyway.
async fn send<T>(sender: &Sender<T>, message: T) -> Result<(), NbdError> {
    match tokio::time::timeout(CLIENT_READ_TIMEOUT, sender.send(Ok(message))).await {
        Ok(_) => Ok(()),
        Err(_) => Err(NbdError::ClientStopped(CLIENT_READ_TIMEOUT)),
    }
}

async fn map(
    socket: &std::path::Path,
    request: MapRequest,
    sender: Sender<MapResponse>,
) -> Result<(), NbdError> {
    let MapRequest {
        export_name,
        bitmap_name,
        offset,
        length,
    } = request;
    let mut contexts = vec![ALLOCATION_CONTEXT.to_owned()];
    let kind = match bitmap_name.is_empty() {
        true => MapKind::Allocation,
        false => {
            contexts.push(format!("qemu:dirty-bitmap:{bitmap_name}"));
            MapKind::Changes
        }
    };
    let mut client = NbdClient::connect(socket, &export_name, &contexts).await?;
    let end = client.end(offset, length)?;
    let mut batches = ExtentBatches::new(kind, offset, end);
    while batches.next() < end {
        let before = batches.next();
        for response in batches.observe(&client.map(before, end).await?) {
            send(&sender, response).await?;
        }
        if batches.next() == before {
            let what = format!("the map ends at {before}");
            return Err(NbdError::Protocol(what));
        }
    }
    for response in batches.finish() {
        send(&sender, response).await?;
    }
    Ok(())
}

async fn read(
    socket: &std::path::Path,
    request: ReadRequest,
    sender: Sender<DataChunk>,
) -> Result<(), NbdError> {
    let ReadRequest {
        export_name,
        mut offset,
        length,
    } = request;
    let mut client = NbdClient::connect(socket, &export_name, &[]).await?;
    let end = client.end(offset, length)?;
    while offset < end {
        let length = u32::try_from((end - offset).min(CHUNK_BYTES)).unwrap_or(u32::MAX);
        let data = client.read(offset, length).await?;
        send(&sender, DataChunk { offset, data }).await?;
        offset += u64::from(length);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
