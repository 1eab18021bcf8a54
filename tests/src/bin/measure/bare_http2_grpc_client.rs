//! gRPC calls over bare HTTP/2, so that the figures do not include a gRPC client library.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bytes::{BufMut, Bytes, BytesMut};
use h2::client::SendRequest;
use http::Request;
use prost::Message;
use tokio::net::UnixStream;

/// The calls for one median take at most this long: a slow launcher answers fewer calls than requested.
const MEDIAN_TIMEOUT: Duration = Duration::from_secs(20);
/// The deadline of a call.
const CALL_DEADLINE: Duration = Duration::from_secs(20);
const SERVICE: &str = "http://localhost/kubevirt.cmd.v1.Cmd";

/// A connection to the command socket.
pub(crate) struct BareGrpcClient {
    requests: SendRequest<Bytes>,
}

impl BareGrpcClient {
    /// Connects. A separate task serves the connection until the client is dropped.
    pub(crate) async fn connect(socket: &Path) -> Result<BareGrpcClient> {
        let stream = UnixStream::connect(socket).await?;
        let (requests, connection) = h2::client::handshake(stream).await?;
        tokio::spawn(connection);
        Ok(BareGrpcClient { requests })
    }

    /// The median duration in microseconds of at most `count` calls, made within [`MEDIAN_TIMEOUT`]. Fails if a call is
    /// answered with an error.
    pub(crate) async fn median(
        &mut self,
        method: &str,
        request: &impl Message,
        count: usize,
    ) -> Result<f64> {
        let body = frame(request)?;
        let mut times = Vec::with_capacity(count);
        let first = Instant::now();
        while times.len() < count && first.elapsed() < MEDIAN_TIMEOUT {
            let begin = Instant::now();
            let call = self.call(method, body.clone());
            tokio::time::timeout(CALL_DEADLINE, call)
                .await
                .with_context(|| format!("{method}: no answer within {CALL_DEADLINE:?}"))??;
            times.push(begin.elapsed());
        }
        times.sort_unstable();
        let median = times.get(times.len() / 2).context("nothing was called")?;
        Ok(median.as_secs_f64() * 1e6)
    }

    /// Sends one call and reads its answer to the end.
    async fn call(&mut self, method: &str, body: Bytes) -> Result<()> {
        let request = Request::post(format!("{SERVICE}/{method}"))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(())?;
        std::future::poll_fn(|context| self.requests.poll_ready(context)).await?;
        let (answer, mut stream) = self.requests.send_request(request, false)?;
        stream.send_data(body, true)?;
        let mut body = answer.await?.into_body();
        while let Some(data) = body.data().await {
            let data = data?;
            body.flow_control().release_capacity(data.len())?;
        }
        let trailers = body
            .trailers()
            .await?
            .context("an answer without trailers")?;
        let status = trailers.get("grpc-status");
        ensure!(
            status.is_some_and(|status| status == "0"),
            "{method} was answered with {trailers:?}"
        );
        Ok(())
    }
}

/// A message in gRPC framing: uncompressed, with its length.
fn frame(message: &impl Message) -> Result<Bytes> {
    let length = message.encoded_len();
    let mut frame = BytesMut::with_capacity(5 + length);
    frame.put_u8(0);
    frame.put_u32(length.try_into()?);
    message.encode(&mut frame)?;
    Ok(frame.freeze())
}
