//! Clients of the command socket other than virt-handler: many at once, another gRPC library, and clients that send
//! garbage.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use tests::raw_http2_client::{
    DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, RST_STREAM, RawHttp2Client, frame,
    grpc_message, request_headers,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::task::JoinSet;

use crate::fault_row_calls::{Call, ask};
use crate::test_vm::TestVm;

const CALL_MIX: [Call; 5] = [
    Call::Ping,
    Call::GetDomain,
    Call::GetDomainStats,
    Call::Sync,
    Call::GetGuestInfo,
];
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// Makes `commands` calls on each of `clients` connections at once. Fails if a call fails.
pub(crate) async fn run_many_clients(vm: &TestVm, clients: usize, commands: usize) -> Result<()> {
    let mut tasks = JoinSet::new();
    for index in 0..clients {
        let (client, vmi) = (vm.new_client().await?, vm.vmi.clone());
        tasks.spawn(async move {
            for call in CALL_MIX.iter().cycle().skip(index).take(commands) {
                ask(&client, &vmi, *call)
                    .await?
                    .accepted()
                    .with_context(|| format!("{call:?}"))?;
            }
            anyhow::Ok(())
        });
    }
    let outcomes = tasks.join_all().await;
    let errors: Vec<_> = outcomes.into_iter().filter_map(Result::err).collect();
    ensure!(
        errors.is_empty(),
        "{} of {clients} clients got an error, the first: {:#}",
        errors.len(),
        errors[0]
    );
    Ok(())
}

/// Opens connections that send garbage instead of HTTP/2, or nothing, and closes them.
pub(crate) async fn send_garbage(socket: &Path, connections: usize) -> Result<()> {
    let mut open_streams = Vec::new();
    for index in 0..connections {
        let mut stream = UnixStream::connect(socket).await?;
        let bytes: Vec<u8> = (0..index * 7)
            .map(|byte| (byte * 31 + index) as u8)
            .collect();
        // The launcher may close the connection.
        let _ = stream.write_all(&bytes).await;
        if index % 2 == 0 {
            open_streams.push(stream);
        }
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    Ok(())
}

/// Calls `Ping` with the percent-encoded path of the socket as `:authority`, as gRPC's C core does.
pub(crate) async fn ping_with_other_authority(socket: &Path) -> Result<()> {
    let authority = socket.to_string_lossy().replace('/', "%2F");
    let headers = request_headers("/kubevirt.cmd.v1.Cmd/Ping", &authority);
    let mut client = RawHttp2Client::connect(socket, &[]).await?;
    let request = [
        frame(HEADERS, END_HEADERS, 1, &headers),
        frame(DATA, END_STREAM, 1, &grpc_message(&[])),
    ];
    client.stream.write_all(&request.concat()).await?;
    let result = tokio::time::timeout(ANSWER_TIMEOUT, read_answer(&mut client.stream)).await;
    result
        .context("no answer")?
        .with_context(|| format!("with :authority {authority}"))
}

/// Reads frames until the headers of the answer. Fails if the call is reset.
async fn read_answer(stream: &mut UnixStream) -> Result<()> {
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head).await?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let mut payload = vec![0; length];
        stream.read_exact(&mut payload).await?;
        match head[3] {
            HEADERS => return Ok(()),
            RST_STREAM => bail!("the call was reset with the HTTP/2 error code {payload:?}"),
            GOAWAY => bail!("the connection was closed with {payload:?}"),
            _ => {}
        }
    }
}
