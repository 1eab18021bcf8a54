//! The gRPC service `kubevirt.nbd.NBD`. Each call has a connection to QEMU of its own.
//!
//! Data is read from QEMU only as fast as the client reads: at most two messages wait.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use proto::nbd::nbd_server::Nbd;
use proto::nbd::{DataChunk, MapRequest, MapResponse, ReadRequest};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

use super::disk_map::{ExtentBatches, MapKind};
use super::error::NbdError;
use super::qemu_nbd_client::NbdClient;

const CHUNK: u64 = 256 << 10;
const WAITING: usize = 2;
/// A client that reads nothing for this long has no use for its connection to QEMU.
const CLIENT_READS: Duration = Duration::from_secs(300);
const ALLOCATION: &str = "base:allocation";

type Sender<T> = mpsc::Sender<Result<T, Status>>;
type Stream<T> = ReceiverStream<Result<T, Status>>;

/// Serves what QEMU serves on a socket.
#[derive(Debug, Clone)]
pub(crate) struct NbdService {
    socket: Arc<PathBuf>,
}

impl NbdService {
    /// A service for the exports on that socket.
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

/// Runs `serve` until it has sent everything or the client is gone.
fn stream<T, F, R>(serve: F) -> Response<Stream<T>>
where
    T: Send + 'static,
    F: FnOnce(Sender<T>) -> R + Send + 'static,
    R: Future<Output = Result<(), NbdError>> + Send + 'static,
{
    let (sender, received) = mpsc::channel(WAITING);
    tokio::spawn(async move {
        let errors = sender.clone();
        tokio::select! {
            () = errors.closed() => {}
            served = serve(sender) => if let Err(error) = served {
                tracing::warn!(reason = %error, "a client of a backup is refused");
                // The connection to QEMU is closed by now; a client that does not read holds only its messages.
                let _ = errors.send(Err(Status::unknown(error.to_string()))).await;
            }
        }
    });
    Response::new(ReceiverStream::new(received))
}

/// Waits until the client has read enough for one more message. What a client that is gone did not read does not matter:
/// the call ends with it.
async fn send<T>(sender: &Sender<T>, message: T) -> Result<(), NbdError> {
    match tokio::time::timeout(CLIENT_READS, sender.send(Ok(message))).await {
        Ok(_) => Ok(()),
        Err(_) => Err(NbdError::ClientStopped(CLIENT_READS)),
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
    let mut contexts = vec![ALLOCATION.to_owned()];
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
        let length = u32::try_from((end - offset).min(CHUNK)).unwrap_or(u32::MAX);
        let data = client.read(offset, length).await?;
        send(&sender, DataChunk { offset, data }).await?;
        offset += u64::from(length);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
