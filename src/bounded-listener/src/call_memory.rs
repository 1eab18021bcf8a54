//! Counts what open calls hold in memory: their requests, and answers until the client has read them.
//!
//! Only for services whose requests and answers are single messages. A request is read to its end before its service is
//! called, so that a client that does not finish its request occupies no service.

use std::convert::Infallible;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use futures_util::future::BoxFuture;
use http::{HeaderMap, Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use tonic::Status;
use tonic::body::Body;
use tower::{Layer, Service};

use crate::connection_table::{ConnectionHandle, HoldError};
use crate::limits::{CALL_BYTES, CONNECTION_BYTES, LISTENER_BYTES, REQUEST_TIMEOUT};

/// Size of what precedes a message in gRPC: whether it is compressed, and its length.
const MESSAGE_PREFIX_BYTES: usize = 5;
/// Size of the pieces in which a request is kept.
const PIECE_BYTES: usize = 16 << 10;

/// Counts what the calls of a service hold.
#[derive(Debug, Clone, Copy)]
pub struct CallMemoryLayer {
    /// Maximum size of a message that any of the services decodes.
    pub(crate) message_bytes: usize,
}

/// A service whose calls are counted.
#[derive(Debug, Clone)]
pub struct CallMemory<S> {
    service: S,
    message_bytes: usize,
}

/// An open call.
struct OpenCall {
    connection: ConnectionHandle,
    held_bytes: usize,
}

/// The bytes of an answer. They count until the last of them is sent.
struct Answer {
    bytes: Bytes,
    _call: OpenCall,
}

impl<S> Layer<S> for CallMemoryLayer {
    type Service = CallMemory<S>;

    fn layer(&self, service: S) -> CallMemory<S> {
        CallMemory {
            service,
            message_bytes: self.message_bytes,
        }
    }
}

impl<S> Service<Request<Body>> for CallMemory<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>
        + Clone
        + Send
        + 'static,
    S::Future: Send,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.service.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        // The service that is ready serves the call; its clone must become ready first.
        let clone = self.service.clone();
        let service = std::mem::replace(&mut self.service, clone);
        let answer = answer(service, request, self.message_bytes);
        Box::pin(async move { Ok(answer.await.unwrap_or_else(Status::into_http)) })
    }
}

async fn answer<S>(
    mut service: S,
    request: Request<Body>,
    message_bytes: usize,
) -> Result<Response<Body>, Status>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
{
    let connection = request.extensions().get::<ConnectionHandle>();
    let connection = connection.ok_or_else(|| Status::internal("the call has no connection"))?;
    let mut call = OpenCall {
        connection: connection.clone(),
        held_bytes: 0,
    };
    call.hold(CALL_BYTES)?;
    let (parts, body) = request.into_parts();
    let received = receive(body, &mut call, message_bytes);
    let message = tokio::time::timeout(REQUEST_TIMEOUT, received).await;
    let message = message.map_err(|_| {
        let text = format!("the request was not complete within {REQUEST_TIMEOUT:?}");
        Status::deadline_exceeded(text)
    })??;
    let running = call.connection.running();
    let request = Request::from_parts(parts, message.into_body());
    let response = service.call(request).await;
    let (parts, body) = response.unwrap_or_else(|never| match never {}).into_parts();
    let body = body.collect().await?;
    drop(running);
    let trailers = body.trailers().cloned();
    let body = call.into_answer(body.to_bytes(), trailers)?;
    Ok(Response::from_parts(parts, body))
}

/// Reads a request to its end, or until it announces a message that no service takes, which its service refuses.
async fn receive(
    mut body: Body,
    call: &mut OpenCall,
    message_bytes: usize,
) -> Result<Pieces, Status> {
    let mut pieces = Pieces::default();
    while let Some(frame) = body.frame().await {
        if let Some(data) = frame?.data_ref() {
            call.hold(data.len())?;
            pieces.append(data);
        }
        if announced_bytes(pieces.first()).is_some_and(|bytes| bytes > message_bytes) {
            break;
        }
    }
    Ok(pieces)
}

/// The bytes of a request in pieces of one size, so that what one call frees is used again for the next. They are copied:
/// a frame of a few bytes would keep the buffer in which it arrived.
#[derive(Default)]
struct Pieces {
    full: Vec<Bytes>,
    last: BytesMut,
}

impl Pieces {
    fn append(&mut self, mut data: &[u8]) {
        while !data.is_empty() {
            if self.last.len() == PIECE_BYTES || self.last.is_empty() {
                let full = std::mem::replace(&mut self.last, BytesMut::with_capacity(PIECE_BYTES));
                self.full.extend((!full.is_empty()).then(|| full.freeze()));
            }
            let (next, rest) = data.split_at(data.len().min(PIECE_BYTES - self.last.len()));
            self.last.extend_from_slice(next);
            data = rest;
        }
    }

    fn first(&self) -> &[u8] {
        self.full.first().map_or(&self.last, |piece| piece)
    }

    fn into_body(self) -> Body {
        let pieces = self.full.into_iter().chain([self.last.freeze()]);
        body_of(pieces.map(Frame::data))
    }
}

/// A body of unknown length: gRPC's messages have no Content-Length.
fn body_of(frames: impl Iterator<Item = Frame<Bytes>> + Send + 'static) -> Body {
    let frames = futures_util::stream::iter(frames.map(Ok::<_, Status>));
    Body::new(StreamBody::new(frames))
}

/// The length of the message that begins here.
fn announced_bytes(message: &[u8]) -> Option<usize> {
    let prefix = message.first_chunk::<MESSAGE_PREFIX_BYTES>()?;
    let [_, a, b, c, d] = *prefix;
    usize::try_from(u32::from_be_bytes([a, b, c, d])).ok()
}

impl OpenCall {
    fn hold(&mut self, bytes: usize) -> Result<(), Status> {
        match self.connection.hold(bytes) {
            Ok(()) => {
                self.held_bytes += bytes;
                Ok(())
            }
            Err(HoldError::ConnectionFull) => Err(Status::resource_exhausted(format!(
                "the open calls of this connection have more than {CONNECTION_BYTES} bytes"
            ))),
            Err(HoldError::ListenerFull) => Err(Status::resource_exhausted(format!(
                "the open calls of all connections have more than {LISTENER_BYTES} bytes"
            ))),
            Err(HoldError::Closed) => Err(Status::unavailable("the connection was closed")),
        }
    }

    /// Replaces the bytes of the request by those of the answer. An error if the client has left too many answers unread.
    fn into_answer(mut self, bytes: Bytes, trailers: Option<HeaderMap>) -> Result<Body, Status> {
        self.release(self.held_bytes - CALL_BYTES);
        self.hold(bytes.len())?;
        if bytes.is_empty() && trailers.is_none() {
            return Ok(Body::empty());
        }
        let bytes = Bytes::from_owner(Answer { bytes, _call: self });
        let trailers = trailers.map(Frame::trailers);
        let frames = std::iter::once(Frame::data(bytes)).chain(trailers);
        Ok(body_of(frames))
    }

    fn release(&mut self, bytes: usize) {
        self.connection.release(bytes);
        self.held_bytes -= bytes;
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        self.connection.release(self.held_bytes);
    }
}

impl AsRef<[u8]> for Answer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::Full;
    use tower::service_fn;

    use super::*;
    use crate::connection_table::OpenConnections;
    use crate::limits::{COMMAND_SOCKET, MESSAGE_BYTES};

    /// A service whose answer has as many bytes as the request says.
    async fn call(
        handle: &ConnectionHandle,
        answer_bytes: usize,
    ) -> Result<Response<Body>, Status> {
        let service = service_fn(move |_| async move {
            let body = Full::new(Bytes::from(vec![0; answer_bytes]));
            Ok::<_, Infallible>(Response::new(Body::new(body)))
        });
        let mut request = Request::new(Body::empty());
        request.extensions_mut().insert(handle.clone());
        answer(service, request, MESSAGE_BYTES).await
    }

    #[test]
    fn request_is_kept_in_pieces_of_one_size() {
        let bytes: Vec<u8> = (0..3 * PIECE_BYTES + 5).map(|at| at as u8).collect();
        let mut pieces = Pieces::default();
        for part in bytes.chunks(PIECE_BYTES - 100) {
            pieces.append(part);
        }
        assert_eq!(pieces.first(), &bytes[..PIECE_BYTES]);
        let sizes: Vec<usize> = pieces.full.iter().map(Bytes::len).collect();
        assert_eq!((sizes, pieces.last.len()), (vec![PIECE_BYTES; 3], 5));
        assert_eq!(
            [&pieces.full.concat()[..], &pieces.last[..]].concat(),
            bytes
        );
    }

    #[tokio::test]
    async fn answer_for_which_there_is_no_room_fails_its_own_call_alone() {
        let connections = OpenConnections::new(COMMAND_SOCKET.listener);
        let guard = connections.admit();
        let unread = call(guard.handle(), MESSAGE_BYTES / 2).await.unwrap();
        let refused = call(guard.handle(), MESSAGE_BYTES).await.unwrap_err();
        assert_eq!(refused.code(), tonic::Code::ResourceExhausted, "{refused}");
        assert!(!guard.handle().closed().is_cancelled());
        drop(unread);
        let large = call(guard.handle(), MESSAGE_BYTES).await.unwrap();
        assert!(large.headers().get(http::header::CONTENT_LENGTH).is_none());
        let body = large.into_body();
        assert_eq!(http_body::Body::size_hint(&body).exact(), None);
        assert_eq!(
            body.collect().await.unwrap().to_bytes().len(),
            MESSAGE_BYTES
        );
    }
}
