//! Counts what open calls hold in memory: their requests, and answers until the client has read them.
//!
//! Only for services whose requests and answers are single messages. A request is read to its end before its service is
//! called, so that a client that does not finish its request occupies no service.

use std::convert::Infallible;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use futures_util::future::BoxFuture;
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt, Full};
use tonic::Status;
use tonic::body::Body;
use tower::{Layer, Service};

use crate::connection_table::HoldError;
use crate::limits::{CALL_BYTES, CONNECTION_BYTES, REQUEST_TIMEOUT};
use crate::open_connections::ConnectionHandle;

/// Size of what precedes a message in gRPC: whether it is compressed, and its length.
const MESSAGE_PREFIX_BYTES: usize = 5;

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
    let request = Request::from_parts(parts, Body::new(Full::new(message)));
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
) -> Result<Bytes, Status> {
    // Copied: a piece of a few bytes would keep the buffer in which it arrived.
    let mut message = BytesMut::new();
    while let Some(frame) = body.frame().await {
        if let Some(data) = frame?.data_ref() {
            call.hold(data.len())?;
            message.extend_from_slice(data);
        }
        if announced_bytes(&message).is_some_and(|bytes| bytes > message_bytes) {
            break;
        }
    }
    Ok(message.freeze())
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
            Err(HoldError::Closed) => Err(Status::unavailable(
                "the connection was closed, since it was idle longest of too many",
            )),
        }
    }

    /// Replaces the bytes of the request by those of the answer.
    fn into_answer(mut self, bytes: Bytes, trailers: Option<HeaderMap>) -> Result<Body, Status> {
        self.release(self.held_bytes - CALL_BYTES);
        if let Err(status) = self.hold(bytes.len()) {
            // The client does not read its answers.
            self.connection.close();
            return Err(status);
        }
        if bytes.is_empty() && trailers.is_none() {
            return Ok(Body::empty());
        }
        let bytes = Bytes::from_owner(Answer { bytes, _call: self });
        let trailers = trailers.map(Ok);
        Ok(Body::new(
            Full::new(bytes).with_trailers(async move { trailers }),
        ))
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
